package pages

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// SignIn writes the page that a person is shown instead of being led on to an application.
func (p *Pages) SignIn(c echo.Context, page web.OIDCPage) error {
	setHeaders(c.Response().Header())
	r := &request{Context: c, status: http.StatusBadRequest}
	r.text = p.language(r)
	shown, title := refusedPage{Portal: p.PublicURL + root}, r.text["RefusedTitle"]
	if page.Err != nil {
		shown.Lead, shown.Help = r.text["AppUnknown"], r.text["AppUnknownHelp"]
		return p.render(r, "refused", title, shown)
	}
	answer := web.OIDCAnswer(page.Step)
	app := application.Application{Slug: page.Step.Slug, Name: page.Step.Name}
	switch page.Step.Kind {
	case oidc.NoAccess, oidc.NoFactor:
		r.status = 0
		reason := access.AppDenied
		if page.Step.Kind == oidc.NoFactor {
			reason = access.SecondFactorNeeded
		}
		return p.refused(r, reason, app, access.Caller{}, "")
	default: // browsers follow no redirect to an own scheme without a tap
		r.status = http.StatusOK
		shown.URL, shown.Action = answer.URL(), fmt.Sprint(app.Name)
		return p.render(r, "refused", app.Name, shown)
	}
}

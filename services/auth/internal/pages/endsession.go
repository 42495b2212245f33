package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// applicationLogouts has the page to which an application leads a user who wants to log out.
type applicationLogouts struct{ *Pages }

// ownForm is the parameter of our own form's address. Other forms are those of applications.
const ownForm = "ask"

func (p applicationLogouts) routes(e *echo.Echo) {
	p.page(e, web.OIDCEndSession, route{get: p.form})
	own := p.handle(route{get: p.form, post: p.leave}, p.leave)
	e.POST(web.OIDCEndSession, func(c echo.Context) error {
		if c.QueryParam(ownForm) != "" {
			return own(c)
		}
		return p.fromApplication(c)
	})
}

// fromApplication answers a POST of an application's page with a redirect to the page of the logout. A POST from
// another site brings no cookie of ours, but the request after the redirect does. Neither request logs anybody out.
func (p applicationLogouts) fromApplication(c echo.Context) error {
	r := &request{Context: c}
	if err := r.readForm(); err != nil {
		r.form = form{} // it says nothing, and the user is asked
	}
	values := url.Values{}
	for _, name := range []string{"id_token_hint", "client_id", "post_logout_redirect_uri", "state"} {
		if r.form.sent(name) {
			values[name] = r.form.values[name]
		}
	}
	return r.seeOther(web.OIDCEndSession + "?" + values.Encode())
}

// endPage is what the page of a logout shows.
type endPage struct {
	Lead, All, One string // One is empty where no application is known
	To             string // URL to which the form is sent
	Ended          bool   // the user is logged out: there is nothing to ask
}

// read reads the application's request, of GET and of our form alike. service.ErrNoRoute at another host than the
// portal's, and where there is no provider.
func (p applicationLogouts) read(r *request) (oidc.LogoutRequest, error) {
	if !application.IsAt(p.PublicURL, r.Request().Host) {
		return oidc.LogoutRequest{}, service.ErrNoRoute
	}
	f, err := p.OIDC.EndSession(r.ctx(), r.QueryParams())
	if oidc.IsOff(err) {
		err = service.ErrNoRoute
	}
	return f, err
}

// form asks what is to end. Who is logged out already is led back, or told so.
func (p applicationLogouts) form(r *request) error {
	f, err := p.read(r)
	if err != nil {
		return err
	}
	if r.Current == nil {
		r.Caller, err = p.caller(r)
	}
	if errors.Is(err, session.ErrNotFound) {
		return p.ended(r, f)
	}
	if err != nil {
		return err
	}
	query := r.QueryParams()
	query.Set(ownForm, "yes")
	page := endPage{
		Lead: r.text["EndSessionLead"], All: r.text["EndSessionAll"], To: web.OIDCEndSession + "?" + query.Encode(),
	}
	if f.Known() {
		page.Lead = fmt.Sprintf(r.text["EndSessionLeadF"], f.Client.Name)
		page.One = fmt.Sprintf(r.text["EndSessionOneF"], f.Client.Name)
	}
	if f.To != "" {
		permitForms(r.Response().Header(), oidc.Origin(f.To))
	}
	return p.render(r, "end-session", r.text["Logout"], page)
}

// leave ends the login at the application and, unless the form asks for that alone, the session. It leads the user
// back where the request has an address to which it may.
func (p applicationLogouts) leave(r *request) error {
	f, err := p.read(r)
	if err != nil {
		return err
	}
	r.Caller, err = p.caller(r)
	if errors.Is(err, session.ErrNotFound) { // another tab was first
		return p.ended(r, f)
	}
	if err != nil {
		return err
	}
	if err := p.CheckCSRF(r.Response(), r.Request(), r.Caller, r.form.get("csrf")); err != nil {
		return err
	}
	r.SetRequest(p.As(r.Response(), r.Request(), r.Caller))
	if err := p.OIDC.EndLogin(r.ctx(), f, r.UserID); err != nil {
		return err
	}
	if r.form.get("do") == "one" {
		return r.seeOther(cmp.Or(f.To, root))
	}
	if err := p.Logout(r.Response(), r.Request(), r.Caller); err != nil {
		return err
	}
	return r.seeOther(cmp.Or(f.To, web.OIDCEndSession))
}

// ended leads who is logged out back to the application or, where the request has no address, tells them so.
func (p applicationLogouts) ended(r *request, f oidc.LogoutRequest) error {
	if f.To != "" {
		return r.seeOther(f.To)
	}
	r.status = http.StatusOK
	return p.render(r, "end-session", r.text["Logout"], endPage{Ended: true})
}

package pages

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// authorizations has what people see between the request of an application that asks who signs in, and the answer.
type authorizations struct{ *Pages }

// handleOf returns the handle of the kept request to which a return path leads; "": it leads to none.
func handleOf(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Path != web.OIDCAuthorize && u.Path != web.OIDCContinuePage {
		return ""
	}
	return u.Query().Get(web.OIDCHandleParam)
}

// waiting returns the kept request to which a return path leads, and reports whether there is one. Where there is no
// provider, there is none.
func (p *Pages) waiting(r *request, to string) (oidc.Waiting, bool, error) {
	handle := handleOf(to)
	if handle == "" {
		return oidc.Waiting{}, false, nil
	}
	w, err := p.OIDC.Waiting(r.ctx(), handle)
	if errors.Is(err, oidc.ErrRequestGone) || oidc.IsOff(err) {
		return oidc.Waiting{}, false, nil
	}
	return w, err == nil, err
}

// SignIn writes the page that a person is shown during a sign-in instead of being redirected, or that of an error.
func (p *Pages) SignIn(c echo.Context, page web.OIDCPage) error {
	setHeaders(c.Response().Header())
	r := &request{Context: c, page: route{get: notFound}}
	r.text = p.language(r)
	if caller, err := p.caller(r); err == nil {
		r.Caller = caller
	}
	err := page.Err
	if err == nil {
		err = authorizations{p}.step(r, page.Step)
	} else {
		err = authorizations{p}.failed(r, err)
	}
	if err != nil && !c.Response().Committed {
		return p.failed(r, err)
	}
	return nil
}

// step leads the user to where a step of a sign-in is done, or shows its page.
func (p authorizations) step(r *request, s oidc.Step) error {
	if to := web.OIDCRedirect(s); to != "" {
		return r.seeOther(to)
	}
	if s.Kind == oidc.Back {
		return p.sendOn(r, s)
	}
	return p.notAdmitted(r, s)
}

// sentOnPage is what the page shows from which a browser goes on to an application.
type sentOnPage struct {
	Name string
	// Link is of a program's own scheme, for the user to press; Fields go to To by a form.
	Link   template.URL
	To     string
	Fields []claim
	Failed bool // the user was not signed in
}

// sendOn leads back to the application by a page: with a link where the address is of a program's own scheme, else
// with a form.
func (p authorizations) sendOn(r *request, s oidc.Step) error {
	answer := web.OIDCAnswer(s)
	page := sentOnPage{Name: s.Name, To: answer.To, Failed: s.Err != nil}
	if oidc.IsOwnScheme(answer.To) {
		page.Link = template.URL(answer.URL()) //nolint:gosec // an entered address, of a scheme that runs nothing
	} else {
		for _, name := range slices.Sorted(maps.Keys(answer.Values)) {
			page.Fields = append(page.Fields, claim{name, answer.Values.Get(name)})
		}
		permitForms(r.Response().Header(), oidc.Origin(answer.To))
	}
	return p.render(r, "sent-on", fmt.Sprintf(r.text["ContinueF"], s.Name), page)
}

// notAdmitted says that the user may not use the application, with a way back there unless a device asks.
func (p authorizations) notAdmitted(r *request, s oidc.Step) error {
	page := refusedPage{
		Lead: r.text["SignInDenied"], Help: r.text["AppDeniedHelp"], Portal: p.PublicURL + root,
		As: r.User.DisplayName, URL: p.PublicURL + askPath(s.Slug), Action: r.text["AskButton"],
	}
	switch {
	case s.Kind == oidc.NoFactor:
		page.Lead, page.Help = r.text["AppSecondFactor"], r.text["AppSecondFactorHelp"]
		page.URL, page.Action = p.PublicURL+securityPath, r.text["DutyNow"]
	case r.isAdmin():
		page.Help, page.URL, page.Action = "", p.PublicURL+appsPath+"/"+s.Slug, r.text["AppDeniedRule"]
	}
	if s.Answer.To != "" { // a device is told by itself
		page.Back = template.URL(web.OIDCAnswer(s).URL()) //nolint:gosec // as above
		page.BackText = fmt.Sprintf(r.text["BackToF"], s.Name)
	}
	r.status = http.StatusForbidden
	return p.render(r, "refused", fmt.Sprintf(r.text["RefusedF"], s.Name), page)
}

// failed says why a request leads nowhere. It returns errors that are not about the request.
func (p authorizations) failed(r *request, err error) error {
	page := refusedPage{Portal: p.PublicURL + root, As: r.User.DisplayName}
	r.status = http.StatusBadRequest
	switch {
	case errors.Is(err, oidc.ErrUnknownClient):
		page.Lead, page.Help = r.text["ClientUnknown"], r.text["AppUnknownHelp"]
	case errors.Is(err, oidc.ErrUnknownAddress):
		page.Lead = r.text["AddressUnknown"]
	case errors.Is(err, oidc.ErrRequestGone):
		page.Lead = r.text["SignInExpired"]
	case errors.Is(err, oidc.ErrRequest):
		page.Lead = r.text["SignInBadRequest"]
	case oidc.IsOff(err):
		return service.ErrNoRoute
	default:
		return err
	}
	if errors.Is(err, oidc.ErrUnknownAddress) && r.Current != nil && r.isAdmin() {
		if client, known := p.clientOf(r, r.QueryParam("client_id")); known {
			page.URL, page.Action = p.PublicURL+signInPath+"/"+client.Slug+"#refused", r.text["AddressSee"]
		}
	}
	return p.render(r, "refused", r.text["SignInFailed"], page)
}

// clientOf returns the client of an id, and reports whether it was found.
func (p authorizations) clientOf(r *request, id string) (oidc.Client, bool) {
	all, err := p.OIDC.Clients(r.ctx())
	i := slices.IndexFunc(all, func(c oidc.Client) bool { return c.ID == id })
	if err != nil || i < 0 {
		return oidc.Client{}, false
	}
	return all[i], true
}

// continuePage is what the page shows that asks before a sign-in.
type continuePage struct {
	Handle, Lead, Yes string
	No, NoText        string // the value of do of the other button, and its text
}

// question asks before a login at an application: whether to sign in, or whether to go on as the user who is logged
// in. Where nothing is to be asked any more, it goes on.
func (p authorizations) question(r *request) error {
	handle := cmp.Or(r.form.get(web.OIDCHandleParam), r.QueryParam(web.OIDCHandleParam))
	w, err := p.OIDC.Waiting(r.ctx(), handle)
	if err != nil {
		return p.failed(r, err)
	}
	step, err := p.OIDC.Authorize(r.ctx(), p.attempt(r, handle))
	if err != nil {
		return p.failed(r, err)
	}
	permitForms(r.Response().Header(), w.Origin)
	page := continuePage{Handle: handle, No: "no", NoText: r.text["Cancel"]}
	switch {
	case step.Kind == oidc.ToChoose:
		page.Lead, page.Yes = fmt.Sprintf(r.text["ContinueAsLeadF"], w.Name), r.text["ContinueButton"]
		page.No, page.NoText = "other", r.text["OtherAccount"]
		return p.render(r, "continue", fmt.Sprintf(r.text["ContinueAsF"], r.User.DisplayName), page)
	case step.Kind != oidc.ToAsk:
		p.Metrics.Authorized(step, nil)
		return p.step(r, step)
	case oidc.Answer{To: w.To}.Proves():
		page.Lead = r.text["AskSignInAppLead"]
	default:
		page.Lead = r.text["AskSignInLead"]
	}
	page.Yes = r.text["AskSignInButton"]
	return p.render(r, "continue", fmt.Sprintf(r.text["AskSignInF"], w.Name), page)
}

// attempt returns the attempt of the user who is logged in, with a kept request.
func (p authorizations) attempt(r *request, handle string) oidc.Attempt {
	return oidc.Attempt{Handle: handle, Session: &r.Session, User: r.User, IP: p.Client(r.Request())}
}

// answer takes what the user answered to the question.
func (p authorizations) answer(r *request) error {
	attempt := p.attempt(r, r.form.get(web.OIDCHandleParam))
	switch r.form.get("do") {
	case "yes":
		attempt.Confirmed = true
	case "no":
		attempt.Denied = true
	case "other": // the login leads back to the request, which then does not ask for an account
		if err := p.Logout(r.Response(), r.Request(), r.Caller); err != nil && !errors.Is(err, session.ErrNotFound) {
			return err
		}
		return r.seeOther(root + "login?return=" + escapeReturn(web.OIDCResume(attempt.Handle)))
	default:
		return web.ErrMalformed
	}
	step, err := p.OIDC.Authorize(r.ctx(), attempt)
	p.Metrics.Authorized(step, err)
	if err != nil {
		return p.failed(r, err)
	}
	return p.step(r, step)
}

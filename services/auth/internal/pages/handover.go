package pages

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/returnpath"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// The pages of a hand-over: the guard on an application's host begins it (session.Manager.BeginHandOver) and
// redirects to the first, on the portal's host, which redirects to the second, on that of the application.
const (
	goPath    = root + "go"
	enterPath = root + "enter"
)

// begunMargin is how much of session.BeginLifetime has to be left to finish a hand-over.
const begunMargin = time.Minute

// handOvers has the pages between the hosts of the portal and of applications.
type handOvers struct{ *Pages }

// handOver is GET /pforte/go?app=SLUG&return=PATH&state=STATE on the portal's host. The guard redirects users to it
// who have no session on an application's host, or must prove a second factor for such an application. The page of a
// form that was not delivered links to it without a state, also for an application with a path. It has the user log
// in, or prove a second factor, where that is lacking, and shows a page where the application is not open to them.
// Else it leads to the application: where there is a state and it is not too old, to its page enter with a code; else
// to the path.
func (p handOvers) handOver(r *request) error {
	slug, state, to := r.QueryParam("app"), r.QueryParam("state"), returnpath.Safe(r.QueryParam("return"), "/")
	here := goPath + "?" + url.Values{"app": {slug}, "return": {to}, "state": {state}}.Encode()
	if len(here) > returnpath.Max { // too long for the return path of a login
		here = goPath + "?" + url.Values{"app": {slug}, "return": {"/"}, "state": {state}}.Encode()
	}
	caller, err := p.caller(r)
	if errors.Is(err, session.ErrNotFound) {
		return r.seeOther(root + "login?return=" + escapeReturn(here))
	}
	if err != nil {
		return err
	}
	r.Caller = caller
	by := access.Caller{DisplayName: r.User.DisplayName, Role: string(r.User.Role)}
	if err := p.Sessions.ResendStale(r.Response(), r.Current); err != nil {
		return err
	}
	// A login may have taken longer than the browser keeps the cookie of the hand-over: then
	// the application's host begins another one.
	begun, ok := session.BegunAt(state)
	if !ok || p.Now().Sub(begun) > session.BeginLifetime-begunMargin {
		state = ""
	}
	app, code, err := p.Policy.HandOver(r.ctx(), r.Session, slug, state)
	switch {
	case errors.Is(err, application.ErrNotFound):
		return p.refused(r, access.UnknownApp, app, by, "")
	case errors.Is(err, policy.ErrAppDenied):
		p.LogEvent(r.Response(), r.Request(), "app_denied", "user_id", r.UserID, "app", app.Slug)
		return p.refused(r, access.AppDenied, app, by, "")
	case errors.Is(err, policy.ErrSecondFactorNeeded) && r.User.SecondFactor:
		return r.seeOther(root + "reauth?return=" + escapeReturn(here))
	case errors.Is(err, policy.ErrSecondFactorNeeded):
		return p.refused(r, access.SecondFactorNeeded, app, by, "")
	case errors.Is(err, session.ErrNotFound), errors.Is(err, user.ErrNotFound): // meanwhile
		return r.seeOther(root + "login?return=" + escapeReturn(here))
	case err != nil:
		return err
	}
	switch {
	case code != "":
		return r.seeOther(app.URL + enterPath + "?" + url.Values{"code": {code}, "return": {to}}.Encode())
	case app.HasHost():
		return r.seeOther(app.URL + to)
	default:
		return r.seeOther(to)
	}
}

// enter is GET /pforte/enter?code=CODE&return=PATH on the host of an application. It opens
// the host with the session of the code, in the browser that began the hand-over.
func (p handOvers) enter(r *request) error {
	// The code may still count for another browser: the next page, which is the application's, must not get it as
	// Referer.
	r.Response().Header().Set("Referrer-Policy", "strict-origin")
	to := returnpath.Safe(r.QueryParam("return"), "/")
	if !p.Sessions.HasBegunAny(r.Request()) {
		return p.notEntered(r, access.CookiesBlocked, to)
	}
	host := requestHost(r.Request())
	of, secret, err := p.Policy.Enter(r.ctx(), r.QueryParam("code"), func(h session.HandOver) bool {
		return h.Host == host && p.Sessions.HasBegun(r.Request(), h.State)
	})
	if errors.Is(err, session.ErrNotFound) {
		return p.notEntered(r, access.HandOverFailed, to)
	}
	if err != nil {
		return err
	}
	if err := p.Sessions.StartApp(r.Response(), of.Ref, of.Device, secret); err != nil {
		return err
	}
	p.Sessions.CountHandOver(r.Response(), r.Request())
	p.LogEvent(r.Response(), r.Request(), "app_entered", "user_id", of.UserID, "host", host)
	return r.seeOther(to)
}

// notEntered redirects a browser that is already admitted to this host, as by another tab,
// and refuses all others. It never begins another hand-over by itself: a browser without
// cookies would be redirected without end.
func (p handOvers) notEntered(r *request, reason access.Reason, to string) error {
	_, err := p.Sessions.AppSession(r.Request().WithContext(session.WithoutRenewal(r.ctx())), requestHost(r.Request()))
	if err == nil {
		return r.seeOther(to)
	}
	if !errors.Is(err, session.ErrNotFound) {
		return err
	}
	p.LogEvent(r.Response(), r.Request(), "handover_refused", "reason", string(reason))
	return p.refused(r, reason, application.Application{}, access.Caller{}, to)
}

// requestHost returns the host of a request as application.Host does, or "".
func requestHost(r *http.Request) string {
	scheme := r.Header.Get("X-Forwarded-Proto")
	if scheme != "http" {
		scheme = "https"
	}
	host, _ := application.Host(scheme, r.Host)
	return host
}

// leadsToApp permits the forms of a page to end at an application's origin: that of the application to which the
// return path leads by a hand-over, or that of the address of a kept request to sign in. No other origin is permitted.
// It returns the name of the application with such a request; "" for all others.
func (p *Pages) leadsToApp(r *request, to string) (name string, err error) {
	if w, waits, err := p.waiting(r, to); waits || err != nil {
		permitForms(r.Response().Header(), w.Origin)
		return w.Name, err
	}
	u, err := url.Parse(to)
	if err != nil || u.Path != goPath {
		return "", nil
	}
	origin, err := p.Policy.OriginOf(r.ctx(), u.Query().Get("app"))
	if err == nil && origin != "" {
		permitForms(r.Response().Header(), origin)
	}
	return "", err
}

// permitForms permits the forms of a page to end at an origin, too: browsers apply form-action to the redirects after
// a form.
func permitForms(h http.Header, origin string) {
	h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "form-action 'self'",
		"form-action 'self' "+origin, 1))
}

// elsewhere returns the address of the request on the portal's host when it came to the host of an application, whose
// scripts must not act as the user here; else "". Without PUBLIC_URL it is "", too.
func (p *Pages) elsewhere(r *request) (string, error) {
	if p.PublicURL == "" || application.IsAt(p.PublicURL, r.Request().Host) {
		return "", nil
	}
	is, err := p.Policy.IsAppHost(r.ctx(), requestHost(r.Request()))
	if err != nil || !is {
		return "", err
	}
	return p.PublicURL + r.Request().URL.RequestURI(), nil
}

// refusedPage is what the page of a refusal shows, which a person sees instead of an application.
type refusedPage struct {
	Lead, Help string
	// URL and Action are a link to what can be done about it, and its text; empty: nothing.
	URL, Action string
	// Back leads back to the application; empty: nothing does.
	Back     template.URL
	BackText string
	Portal   string // address of the start page
	As       string // display name of the user who is logged in; empty: nobody
}

// Refusal writes the page for a person whom the guard refuses, at the application's address. by is the user who is
// logged in, or the zero value, and to is the path on that host that leads back. The reasons are those of
// access.Decide for people, and access.CookiesBlocked for session.ErrLoop.
func (p *Pages) Refusal(
	c echo.Context, status int, reason access.Reason, app application.Application, by access.Caller, to string,
) error {
	setHeaders(c.Response().Header())
	r := &request{Context: c, status: status}
	r.text = p.language(r)
	if access.One(c.Request().Header, "X-Forwarded-Method") == http.MethodPost {
		return p.undelivered(r, reason, app, by, to)
	}
	return p.refused(r, reason, app, by, to)
}

// undelivered writes the page for a person whose form the guard refuses. What they sent is lost, so the page says so,
// and leads to a page of the application by way of the portal, which asks for what is lacking. For reasons other than
// NotLoggedIn, SecondFactorNeeded and ForeignPage it writes the page of refused.
func (p *Pages) undelivered(
	r *request, reason access.Reason, app application.Application, by access.Caller, to string,
) error {
	page := refusedPage{
		Lead: r.text["Undelivered"], Portal: p.PublicURL + root, As: by.DisplayName,
		URL:    p.PublicURL + goPath + "?" + url.Values{"app": {app.Slug}, "return": {to}}.Encode(),
		Action: r.text["ContinueButton"],
	}
	title := fmt.Sprintf(r.text["RefusedF"], app.Name)
	switch reason {
	case access.NotLoggedIn:
		title, page.Help, page.Action = r.text["LoggedOutTitle"], r.text["LoggedOutHelp"], r.text["LoginButton"]
	case access.SecondFactorNeeded:
		page.Help = r.text["AppSecondFactor"]
	case access.ForeignPage:
		page.Help = r.text["ForeignPage"]
	default:
		return p.refused(r, reason, app, by, to)
	}
	return p.render(r, "refused", title, page)
}

// refused writes the page of a refusal. again is a path of the application's host, to try once more where that may
// help; empty where handOver refuses.
func (p *Pages) refused(
	r *request, reason access.Reason, app application.Application, by access.Caller, again string,
) error {
	portal := p.PublicURL + root
	page, title := refusedPage{Portal: portal, As: by.DisplayName}, r.text["RefusedTitle"]
	if app.Name != "" {
		title = fmt.Sprintf(r.text["RefusedF"], app.Name)
	}
	switch reason {
	case access.UnknownApp:
		page.Lead, page.Help = r.text["AppUnknown"], r.text["AppUnknownHelp"]
	case access.SecondFactorNeeded:
		page.Lead, page.Help = r.text["AppSecondFactor"], r.text["AppSecondFactorHelp"]
		page.URL, page.Action = portal+"account/security", r.text["DutyNow"]
	case access.CookiesBlocked:
		title, page.Lead, page.Help = r.text["CookiesTitle"], r.text["CookiesBlocked"], r.text["CookiesHelp"]
		page.URL, page.Action = again, r.text["TryAgain"]
	case access.HandOverFailed:
		title, page.Lead = r.text["HandOverTitle"], r.text["HandOverFailed"]
		page.URL, page.Action = again, r.text["TryAgain"]
	default:
		page.Lead, page.Help = r.text["AppDenied"], r.text["AppDeniedHelp"]
		page.URL, page.Action = p.PublicURL+askPath(app.Slug), r.text["AskButton"]
		if by.Role == string(user.Admin) {
			page.Help, page.URL, page.Action = "", portal+"admin/apps/"+app.Slug, r.text["AppDeniedRule"]
		}
	}
	if r.status == 0 {
		r.status = http.StatusForbidden
	}
	return p.render(r, "refused", title, page)
}

package httpapi

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/returnpath"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// guard has the handlers that decide about requests to other applications.
type guard struct{ *api }

// refusals are the errors for the reasons of refusals. In web's table of errors they have the
// statuses with which access.Decide refuses.
var refusals = map[access.Reason]error{
	access.Forwarded:          web.ErrForwarded,
	access.UnknownApp:         web.ErrUnknownApp,
	access.NotLoggedIn:        web.ErrNotLoggedIn,
	access.AppTokenInvalid:    token.ErrInvalid,
	access.AppDenied:          policy.ErrAppDenied,
	access.SecondFactorNeeded: policy.ErrSecondFactorNeeded,
	access.ReadOnly:           web.ErrReadOnly,
	access.ForeignPage:        web.ErrForeignPage,
}

// check is GET /internal/forward-auth. Where the query names an application (app), guardApplication decides, else
// forwardAuth, about a login and a role. A query with anything else, or that may mean both, is refused, because the
// operator's typing error must not open an application. With login=401 a redirect becomes a 401 with a Location, for
// nginx, whose auth_request takes a redirect for a failure.
func (a guard) check(c echo.Context) error {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	role := query["role"]
	if err == nil && (len(query) == 0 || len(query) == 1 && len(role) == 1 && role[0] != "") {
		return answered(a.forwardAuth)(c)
	}
	known := 1 // parameters
	if query.Get("login") == "401" {
		known = 2
	}
	if err != nil || len(query) != known || len(query["app"]) != 1 || len(query["login"]) != known-1 {
		return web.ErrForwarded
	}
	return a.guardApplication(c, query.Get("app"))
}

// visit is a request to an application.
type visit struct {
	access.Request
	app    application.Application
	portal access.Portal
	// again reports that the request has passed before and lasts: only the proxy reads the answer.
	again   bool
	by      access.Caller
	current *session.Current // nil: no session
	// enrolled reports that the session's user has a second factor.
	enrolled bool
}

// guardApplication decides about a request to the application of a slug. The proxy describes the
// request: method, path, scheme and host in X-Forwarded-*, which are believed of trusted proxies
// only. The other headers but X-Auth-Renew are the client's. A 200 names the user in headers and, with
// X-Auth-Consumed, a header that the application must not see, if there is one. Any other answer
// is for the client, unless the request lasts (visit.again). Where it cannot decide because a store
// does not answer, it answers with a 500.
func (a guard) guardApplication(c echo.Context, slug string) error {
	d, v, err := a.decide(c, slug)
	switch {
	case err == nil && d.Action == access.Pass:
		a.Metrics.Guarded(web.GuardPassed)
	case err == nil:
		a.Metrics.Guarded(d.Reason)
	case errors.Is(err, policy.ErrTooManyTokens):
		a.Metrics.Guarded(web.GuardLimited)
		a.audit(c, "limited", "route", service.RouteLabel(c))
	default:
		a.Metrics.Guarded(web.GuardFailed)
	}
	if err != nil {
		return err
	}
	if v.current != nil {
		if err := a.Sessions.ResendStale(c.Response(), v.current); err != nil {
			return err
		}
	}
	a.logRefusal(c, slug, d, v)
	if d.Action == access.Pass {
		h := c.Response().Header()
		for name, values := range access.Identity(v.by) {
			h[name] = values
		}
		if d.Consumed {
			h.Set("X-Auth-Consumed", "authorization")
		}
		a.Policy.Reached(c.Request().Context(), v.app)
		return writeJSON(c, done.status, done.body)
	}
	return a.refuse(c, d, v)
}

// decide reads a request's credential and decides. A request that is refused for everyone needs no
// store but for the applications (policy.Service.App). An app token needs Redis only when it is wrong.
func (a guard) decide(c echo.Context, slug string) (access.Decision, *visit, error) {
	v := a.visitOf(c)
	app, err := a.Policy.App(c.Request().Context(), slug)
	known := err == nil && !a.CompatV0 // with it there are no applications
	if err != nil && !errors.Is(err, application.ErrNotFound) {
		return access.Decision{}, v, err
	}
	if d, decided := access.Misdirected(v.Request, app, known, v.portal); decided {
		return d, v, nil
	}
	v.app, v.HasCookie = app, app.Tokens && a.Sessions.Sent(c.Request())
	if credential, presented := access.Presented(v.Header); presented {
		err = a.loadToken(c, v, credential)
	} else {
		err = a.loadSession(c, v)
	}
	if err != nil {
		return access.Decision{}, v, err
	}
	return access.Decide(v.Request, app, true, v.portal, v.by), v, nil
}

// visitOf returns what the proxy says of a request.
func (a guard) visitOf(c echo.Context) *visit {
	r := c.Request()
	v := &visit{portal: access.Portal{Origin: a.PublicURL}, again: r.Header.Get("X-Auth-Renew") == "no"}
	if v.again {
		c.SetRequest(r.WithContext(session.WithoutRenewal(r.Context())))
	}
	if !a.TrustedProxies.Sent(r) {
		a.warnUntrusted()
		return v // which is refused as forwarded
	}
	v.Request = access.Request{
		Method: access.One(r.Header, "X-Forwarded-Method"), URI: access.One(r.Header, "X-Forwarded-Uri"),
		Scheme: access.One(r.Header, "X-Forwarded-Proto"), Host: access.One(r.Header, "X-Forwarded-Host"),
		Header: r.Header,
	}
	return v
}

// loadToken finds the user of an app token. Wrong tokens of one address are limited, but not at a
// check of a request that lasts, which the client does not cause. For an application that accepts
// no tokens none is looked up.
func (a guard) loadToken(c echo.Context, v *visit, credential access.Credential) error {
	v.by = access.Caller{Kind: access.WithWrongToken}
	if !v.app.Tokens {
		return nil
	}
	ctx := c.Request().Context()
	var t token.Token
	var visitor policy.Visitor
	var err error
	if v.again {
		t, visitor, err = a.Policy.TokenVisitor(ctx, credential.Text, credential.Username)
	} else {
		t, visitor, err = a.Policy.PresentedToken(ctx, credential.Text, credential.Username, a.Networks(c.Request()))
	}
	a.Metrics.TokenUsed(err)
	if errors.Is(err, token.ErrInvalid) {
		return nil
	}
	if err != nil {
		return err
	}
	v.by = callerOf(access.WithToken, visitor)
	v.by.Credential, v.by.Applications, v.by.ReadOnly = credential, t.Applications, t.ReadOnly
	return nil
}

// loadSession finds the user of the session's cookie, which on the host of an application is
// another one than on the portal's. A session whose user was deleted, or that the user's row
// does not admit, is ended, and the request is anonymous.
func (a guard) loadSession(c echo.Context, v *visit) error {
	var current *session.Current
	var err error
	since := a.Accounts.Since(c.Request().Context())
	atPortal := access.AtPortal(v.Request, v.app, v.portal)
	if atPortal {
		current, err = a.Sessions.Load(c.Request())
	} else {
		current, err = a.Sessions.AppSession(c.Request(), v.app.OwnHost())
	}
	if errors.Is(err, session.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	visitor, err := a.Policy.Visitor(since, current.Session)
	if errors.Is(err, user.ErrNotFound) || errors.Is(err, session.ErrNotFound) {
		if atPortal {
			return a.End(c.Response(), c.Request(), web.Caller{Current: current})
		}
		return a.Accounts.End(c.Request().Context(), current.Session)
	}
	if err != nil {
		return err
	}
	v.current = current
	v.by = callerOf(access.WithSession, visitor)
	v.by.SecondFactor = current.Factor.Second()
	v.enrolled = visitor.User.SecondFactor
	return nil
}

func callerOf(kind access.Kind, visitor policy.Visitor) access.Caller {
	u := visitor.User
	return access.Caller{
		Kind: kind, UserID: u.ID, Username: u.Username, DisplayName: u.DisplayName, Role: string(u.Role),
		Groups: visitor.Groups,
	}
}

// refuse answers a request that does not pass: with a redirect or a page where a person sees it
// and there are pages; else it returns the error of the reason.
func (a guard) refuse(c echo.Context, d access.Decision, v *visit) error {
	if len(d.Challenges) > 0 {
		c.Response().Header()["Www-Authenticate"] = d.Challenges
	}
	if v.again || a.Refusal == nil || d.Action == access.Refuse {
		return refusals[d.Reason]
	}
	switch {
	case d.Action == access.Login:
		return redirect(c, "/pforte/login?return="+v.escapedReturn())
	case d.Action == access.HandOver, d.Action == access.StepUp && v.enrolled && v.app.HasHost():
		return a.handOver(c, v)
	case d.Action == access.StepUp && v.enrolled:
		return redirect(c, "/pforte/reauth?return="+v.escapedReturn())
	}
	status := http.StatusForbidden // also for those who have no second factor yet
	if d.Action == access.Page {
		status = d.Status
	}
	return a.Refusal(c, status, d.Reason, v.app, v.by, v.returnPath())
}

// handOver redirects from the host of an application to the portal, which redirects back with a
// code of a hand-over, after a login or a second factor where needed. Where hand-overs lead the
// browser in a loop it answers with a page instead.
func (a guard) handOver(c echo.Context, v *visit) error {
	state, err := a.Sessions.BeginHandOver(c.Response(), c.Request())
	if errors.Is(err, session.ErrLoop) {
		return a.Refusal(c, http.StatusForbidden, access.CookiesBlocked, v.app, v.by, v.returnPath())
	}
	if err != nil {
		return err
	}
	return redirect(c, a.PublicURL+"/pforte/go?app="+url.QueryEscape(v.app.Slug)+"&return="+
		v.escapedReturn()+"&state="+url.QueryEscape(state))
}

// redirect redirects a person. With login=401 in the query it sets Location and returns an error of
// status 401, of which the proxy makes the redirect.
func redirect(c echo.Context, to string) error {
	if c.QueryParam("login") == "401" {
		c.Response().Header().Set("Location", to)
		return web.ErrNotLoggedIn
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// returnPath returns the path that leads back to the page that was opened, or to the one with the form that was sent;
// where that path is unknown or not safe, to the application's start.
func (v *visit) returnPath() string {
	fallback := v.app.URL
	if v.app.HasHost() {
		fallback = "/"
	}
	return returnpath.Safe(access.PageOf(v.Request), fallback)
}

// escapedReturn returns returnPath, escaped for a query.
func (v *visit) escapedReturn() string { return url.QueryEscape(v.returnPath()) }

// logRefusal logs what operators and programs like fail2ban look for, and records a request to
// an unknown application or to another host than the application's.
func (a guard) logRefusal(c echo.Context, slug string, d access.Decision, v *visit) {
	switch d.Reason {
	case access.UnknownApp:
		c.SetRequest(a.As(c.Response(), c.Request(), web.Caller{}))
		a.Policy.RecordUnknownApp(c.Request().Context(), slug, v.Host)
		a.audit(c, "unknown_app")
	case access.AppTokenInvalid:
		a.audit(c, "app_token_refused", "app", v.app.Slug)
	case access.AppDenied, access.ReadOnly:
		a.audit(c, "app_denied", "app", v.app.Slug, "user_id", v.by.UserID)
	case access.ForeignPage:
		a.audit(c, "origin_refused", "app", v.app.Slug, "user_id", v.by.UserID)
	}
}

package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	openapi "github.com/pforte/pforte/services/auth/api"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// prefix begins the paths of the API.
const prefix = "/api/v1/auth"

// need is what a route needs of a request.
type need int

const (
	counted         need = 1 << iota // the client's address has not sent too many requests, whatever their answers
	attempt                          // the client's networks have not failed to log in too often
	asUser                           // a session, and its CSRF token in a request that changes something
	asAdmin                          // asUser, and the user is an admin
	live                             // a session that has not ended when the body has arrived
	fresh                            // live, and a recent proof of who the user is
	freshWithFactor                  // fresh for users with a second factor, live for others
	ceremony                         // the client's address has not begun or finished too many ceremonies
	proving                          // nothing; the answer has the RateLimit headers of a proof, if one was attempted
)

// route is a path below prefix.
type route struct {
	method, path string
	needs        need
	do           handler
}

// route adds all routes but those of the pages.
func (a *api) route(e *echo.Echo) {
	routes := []route{
		{http.MethodPost, "/login", attempt, with(signIn{a}.login)},
		{http.MethodPost, "/logout", asUser, signIn{a}.logout},
		{http.MethodGet, "/me", asUser, signIn{a}.me},
		{http.MethodGet, "/users", asAdmin, members{a}.listUsers},
		{http.MethodPost, "/users", asAdmin | freshWithFactor, with(members{a}.createUser)},
		{http.MethodDelete, "/users/:id", asAdmin | freshWithFactor, byID(user.ErrNotFound, members{a}.deleteUser)},
	}
	// Other methods of /users/:id are 405 (AUTH-9.3).
	beside := []route{
		{http.MethodPatch, "/me/profile", asUser | live, with(members{a}.updateProfile)},
		{http.MethodGet, "/me/email", asUser, members{a}.ownEmail},
		{http.MethodPut, "/me/email", asUser | fresh, with(members{a}.setOwnEmail)},
		{http.MethodGet, "/members/:id", asAdmin, byID(user.ErrNotFound, members{a}.getUser)},
		{http.MethodPatch, "/members/:id", asAdmin | fresh, members{a}.updateUser},
		{http.MethodPost, "/members/:id/disable", asAdmin | fresh, byID(user.ErrNotFound, members{a}.disableUser)},
		{http.MethodPost, "/members/:id/enable", asAdmin | fresh, byID(user.ErrNotFound, members{a}.enableUser)},
		{http.MethodPut, "/household", asAdmin | fresh, with(members{a}.nameHousehold)},
		{http.MethodPost, "/users/:id/reset-link", asAdmin | fresh, byID(user.ErrNotFound, members{a}.createResetLink)},
		{http.MethodGet, "/invites", asAdmin, members{a}.listInvites},
		{http.MethodPost, "/invites", asAdmin | fresh, with(members{a}.createInvite)},
		{http.MethodDelete, "/invites/:id", asAdmin, byID(link.ErrNotFound, members{a}.revokeInvite)},
		{http.MethodGet, "/invites/preview", counted, members{a}.previewInvite},
		{http.MethodPost, "/invites/accept", counted, with(members{a}.acceptInvite)},
		{http.MethodPost, "/setup", counted, with(members{a}.setup)},
		{http.MethodPost, "/join/passkey/options", counted, with(passkeys{a}.joinOptions)},
		{http.MethodPost, "/join/passkey", counted, passkeys{a}.join},
		{http.MethodPost, "/forgot-password", counted, with(members{a}.forgotPassword)},
		{http.MethodPost, "/reset-password", counted, with(members{a}.resetPassword)},
		{http.MethodGet, "/audit", asAdmin, audits{a}.listAudit},
		{http.MethodGet, "/audit.csv", asAdmin | fresh, audits{a}.auditCSV},
		{http.MethodPost, "/2fa/verify", proving, with(signIn{a}.verifyCode)},
		{http.MethodDelete, "/2fa/pending", 0, signIn{a}.cancelLogin},
		{http.MethodGet, "/2fa", asUser, factors{a}.factorState},
		{http.MethodPost, "/2fa/setup", asUser | fresh, factors{a}.setupTOTP},
		{http.MethodPost, "/2fa/enable", asUser | fresh | proving, with(factors{a}.enableFactor)},
		{http.MethodPost, "/2fa/disable", asUser | live | proving, with(factors{a}.disableFactor)},
		{http.MethodPost, "/2fa/recovery-codes", asUser | live | proving, with(factors{a}.newRecoveryCodes)},
		{http.MethodPut, "/2fa/require", asAdmin | fresh, with(factors{a}.requireFactor)},
		{http.MethodGet, "/2fa/overview", asAdmin, factors{a}.factorOverview},
		{http.MethodDelete, "/users/:id/2fa", asAdmin | fresh, byID(user.ErrNotFound, factors{a}.resetFactor)},
		{http.MethodPost, "/reauth", asUser | live | proving, with(signIn{a}.reauth)},
		{http.MethodGet, "/sessions", asUser, signIn{a}.listSessions},
		{http.MethodDelete, "/sessions/:id", asUser, signIn{a}.endOneSession},
		{http.MethodPost, "/logout-others", asUser, signIn{a}.logoutOthers},
		{http.MethodPost, "/passkeys/login/options", ceremony, passkeys{a}.passkeyLoginOptions},
		{http.MethodPost, "/passkeys/login", attempt, passkeys{a}.passkeyLogin},
		{http.MethodGet, "/passkeys", asUser, passkeys{a}.listPasskeys},
		{http.MethodPost, "/passkeys/options", asUser | fresh | ceremony, passkeys{a}.passkeyRegisterOptions},
		{http.MethodPost, "/passkeys", asUser | fresh, passkeys{a}.createPasskey},
		{http.MethodPost, "/2fa/passkey/options", ceremony, passkeys{a}.passkeySecondOptions},
		{http.MethodPost, "/2fa/passkey", ceremony, passkeys{a}.passkeySecond},
		{http.MethodPost, "/reauth/passkey/options", asUser | ceremony, passkeys{a}.passkeyReauthOptions},
		{http.MethodPost, "/reauth/passkey", asUser | ceremony, passkeys{a}.passkeyReauth},
		{http.MethodPatch, "/passkeys/:id", asUser | live, passkeys{a}.renamePasskey},
		{http.MethodDelete, "/passkeys/:id", asUser | fresh, byID(web.ErrUnknownPasskey, passkeys{a}.deletePasskey)},
		{http.MethodGet, "/apps", asAdmin, apps{a}.listApps},
		{http.MethodGet, "/apps/mine", asUser, apps{a}.myApps},
		{http.MethodPost, "/apps", asAdmin | fresh, with(apps{a}.createApp)},
		{http.MethodPatch, "/apps/:slug", asAdmin | fresh, with(apps{a}.changeApp)},
		{http.MethodDelete, "/apps/:slug", asAdmin | fresh, apps{a}.removeApp},
		{http.MethodGet, "/apps/:slug/route", asAdmin, apps{a}.route},
		{http.MethodPut, "/apps/:slug/route", asAdmin | fresh, with(apps{a}.setRoute)},
		{http.MethodDelete, "/apps/:slug/route", asAdmin | fresh, apps{a}.removeRoute},
		{http.MethodGet, "/apps/:slug/oidc", asAdmin, signIns{a}.client},
		{http.MethodPut, "/apps/:slug/oidc", asAdmin | fresh, with(signIns{a}.setClient)},
		{http.MethodDelete, "/apps/:slug/oidc", asAdmin | fresh, signIns{a}.removeClient},
		{http.MethodPost, "/apps/:slug/oidc/secrets", asAdmin | fresh, signIns{a}.addSecret},
		{
			http.MethodDelete, "/apps/:slug/oidc/secrets/:id", asAdmin | fresh,
			byID(oidc.ErrNoSecret, signIns{a}.removeSecret),
		},
		{http.MethodGet, "/apps/:slug/oidc/preview", asAdmin, signIns{a}.preview},
		{http.MethodPut, "/oidc/issuer", asAdmin | fresh, signIns{a}.takeIssuer},
		{http.MethodGet, "/oidc/config", 0, signIn{a}.config},
		{http.MethodGet, "/grants", asUser, signIns{a}.listGrants},
		{http.MethodDelete, "/grants/:id", asUser, signIns{a}.endGrant},
		{http.MethodGet, "/groups", asAdmin, apps{a}.listGroups},
		{http.MethodPost, "/groups", asAdmin | fresh, with(apps{a}.createGroup)},
		{http.MethodPatch, "/groups/:slug", asAdmin | fresh, with(apps{a}.changeGroup)},
		{http.MethodDelete, "/groups/:slug", asAdmin | fresh, apps{a}.removeGroup},
		{http.MethodGet, "/api-tokens", asUser, tokens{a}.listTokens},
		{http.MethodPost, "/api-tokens", asUser | fresh, with(tokens{a}.createToken)},
		{http.MethodDelete, "/api-tokens/:id", asUser, tokens{a}.proved(tokens{a}.revokeToken)},
		{http.MethodPost, "/api-tokens/:id/remove", asUser, tokens{a}.proved(tokens{a}.removeToken)},
	}
	if !a.CompatV0 {
		routes = append(routes, beside...)
	}
	for _, r := range routes {
		e.Add(r.method, prefix+r.path, answered(a.checked(r)))
	}
	changePassword := a.csrf(a.stepUpIfFactor(a.limited(web.LimitPassword, a.PasswordLimit, userID,
		with(signIn{a}.changePassword))))
	e.PATCH(prefix+"/me/password", answered(a.loggedIn(changePassword, changePassword))) // 404 for a deleted user
	e.GET(prefix+"/openapi.json", func(c echo.Context) error {
		return c.Blob(http.StatusOK, "application/json", openapi.Document)
	})
	e.GET("/internal/forward-auth", guard{a}.check)
	e.POST("/internal/routes", answered(newProxyRoutes(a).list))
	e.GET("/health", answered(a.healthy))
	if a.SignInPage != nil {
		provider{a}.routes(e)
	}
}

// checked returns the handler of a route behind the guards that it needs.
func (a *api) checked(r route) handler {
	h := r.do
	for _, g := range []struct {
		is    bool
		guard func(handler) handler
	}{ // from the inside out
		{r.needs&proving != 0, a.proving},
		{r.needs&ceremony != 0, a.ceremony},
		{r.needs&live != 0, a.arrived},
		{r.needs&fresh != 0, a.stepUp},
		{r.needs&freshWithFactor != 0, a.stepUpIfFactor},
		{r.needs&(asUser|asAdmin) != 0 && !service.IsSafe(r.method), a.csrf},
		{r.needs&asAdmin != 0, a.admin},
		{r.needs&(asUser|asAdmin) != 0, a.authenticated},
		{r.needs&attempt != 0, func(h handler) handler {
			return a.limited(web.LimitLogin, a.LoginLimit, a.networks, h)
		}},
		{r.needs&counted != 0, a.counted},
	} {
		if g.is {
			h = g.guard(h)
		}
	}
	return h
}

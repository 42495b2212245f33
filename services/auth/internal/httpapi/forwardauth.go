package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// safeMethods change nothing (RFC 9110, section 9.2.1); all others need the CSRF
// token, those that nobody knows too.
var safeMethods = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

// forwardAuth is GET /internal/forward-auth: may this request pass? The proxy
// asks it for the applications behind it, with the real method and path in
// X-Forwarded-Method and X-Forwarded-Uri, and with ?role=admin where an admin is
// needed. The answer's headers say who asks. It needs nothing but the session.
func (a *api) forwardAuth(c echo.Context) (answer, error) {
	h := c.Request().Header
	method, uri, role := h.Get("X-Forwarded-Method"), h.Get("X-Forwarded-Uri"), c.QueryParam("role")
	if method == "" || uri == "" || role != "" && role != string(user.Admin) && role != string(user.Member) {
		return answer{}, errForwarded
	}
	if isWebSocket(c.Request()) && !fromOwnPage(c.Request()) {
		a.audit(c, "origin_refused")
		return answer{}, errOrigin
	}
	guarded := memberHandler(passed)
	if !slices.Contains(safeMethods, method) {
		guarded = a.csrf(guarded)
	}
	if role == string(user.Admin) {
		guarded = a.admin(guarded)
	}
	return a.authenticated(guarded)(c)
}

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// fromOwnPage tells whether the page that opens a WebSocket came from the host
// that is asked. It opens with a GET, which needs no CSRF token, and a browser
// lets any page do it, with the cookies; but it says which page (RFC 6455,
// section 10.2). A request without Origin is no browser's.
func fromOwnPage(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	page, err := url.Parse(origin)
	host := r.Header.Get("X-Forwarded-Host")
	return err == nil && host != "" && strings.EqualFold(page.Host, host)
}

func passed(c echo.Context, s session.Session) (answer, error) {
	h := c.Response().Header()
	h.Set("X-Auth-User-Id", strconv.FormatInt(s.UserID, 10))
	h.Set("X-Auth-Username", s.Username)
	h.Set("X-Auth-Role", s.Role)
	return done, nil
}

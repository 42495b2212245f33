package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// forwardAuth is GET /internal/forward-auth without app. The proxy calls it about a request that
// needs a login, with the real method and path in X-Forwarded-Method and X-Forwarded-Uri, and
// with ?role=admin where an admin is required. An unsafe method needs the session's CSRF token
// (AUTH-11.3). A 200 names the user in headers. With
// X-Auth-Renew: no, sent about a request that passed before and still lasts, the session is not
// renewed.
func (a guard) forwardAuth(c echo.Context, s web.Caller) (answer, error) {
	h := c.Request().Header
	method, uri, role := h.Get("X-Forwarded-Method"), h.Get("X-Forwarded-Uri"), c.QueryParam("role")
	if method == "" || uri == "" || role != "" && role != string(user.Admin) && role != string(user.Member) {
		return answer{}, web.ErrForwarded
	}
	if access.IsWebSocket(h) && !fromOwnPage(h) {
		a.audit(c, "origin_refused")
		return answer{}, web.ErrOrigin
	}
	if h.Get("X-Auth-Renew") == "no" {
		c.SetRequest(c.Request().WithContext(session.WithoutRenewal(c.Request().Context())))
	}
	guarded := handler(passed)
	if !service.IsSafe(method) {
		guarded = a.csrf(guarded)
	}
	if role == string(user.Admin) {
		guarded = a.admin(guarded)
	}
	return a.authenticated(guarded)(c, s)
}

// fromOwnPage reports whether the page that opens a WebSocket has the origin of the
// request: scheme, host and port. A WebSocket opens with a GET, which needs no CSRF
// token, and a page of another origin may open one with the cookies; but browsers send the page's
// origin (RFC 6455, section 10.2). A request without Origin is not a browser's, and passes.
func fromOwnPage(h http.Header) bool {
	origins := h.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	schemes, hosts := h.Values("X-Forwarded-Proto"), h.Values("X-Forwarded-Host")
	if len(origins) != 1 || len(schemes) != 1 || len(hosts) != 1 {
		return false
	}
	page, ok := origin(origins[0])
	target, known := origin(schemes[0] + "://" + hosts[0])
	return ok && known && page == target
}

// origin returns an origin in the form in which browsers compare it, in lower case and without the
// default port, and reports whether it is one of http or https.
func origin(s string) (string, bool) {
	u, err := url.Parse(strings.ToLower(s))
	if err != nil || u.Host == "" || u.Hostname() == "" || u.String() != u.Scheme+"://"+u.Host {
		return "", false
	}
	port, known := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(u.Host, port), known
}

func passed(c echo.Context, s web.Caller) (answer, error) {
	h := c.Response().Header()
	h.Set("X-Auth-User-Id", strconv.FormatInt(s.UserID, 10))
	h.Set("X-Auth-Username", s.Username)
	h.Set("X-Auth-Role", s.Role)
	return done, nil
}

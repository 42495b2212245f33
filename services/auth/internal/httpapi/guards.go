package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/serve"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// csrfHeader carries the CSRF token, in both directions.
const csrfHeader = "X-CSRF-Token"

// memberHandler answers a request of somebody who is logged in.
type memberHandler func(c echo.Context, s session.Session) (answer, error)

// authenticated lets nobody through who is not logged in. The session is loaded
// and renewed in one access to its store; when that fails nobody can say who
// asks, and the answer is a 500. Both cookies are sent again when they have
// become old, because a browser counts from when it got them.
func (a *api) authenticated(h memberHandler) handler {
	return func(c echo.Context) (answer, error) {
		s, err := a.sessions.Current(c.Request())
		if err != nil {
			return answer{}, err
		}
		ans, err := h(c, s)
		if !a.compatV0 && (err == nil || failureOf(err).status < http.StatusInternalServerError) {
			if err := a.sessions.ResendStale(c.Response(), c.Request()); err != nil {
				return answer{}, err
			}
		}
		return ans, err
	}
}

// admin lets admins through.
func (a *api) admin(h memberHandler) memberHandler {
	return func(c echo.Context, s session.Session) (answer, error) {
		if s.Role != string(user.Admin) {
			a.audit(c, "admin_refused", "user_id", s.UserID)
			return answer{}, errAdminOnly
		}
		return h(c, s)
	}
}

// csrf lets a request through that proves to come from our own pages. A refusal
// tells the page the right token, which a foreign page cannot read.
func (a *api) csrf(h memberHandler) memberHandler {
	return func(c echo.Context, s session.Session) (answer, error) {
		if !s.ValidCSRFToken(c.Request().Header.Get(csrfHeader)) {
			tellCSRFToken(c, s)
			a.audit(c, "csrf_refused", "user_id", s.UserID)
			return answer{}, errCSRF
		}
		return h(c, s)
	}
}

func tellCSRFToken(c echo.Context, s session.Session) {
	if s.CSRFToken != "" {
		c.Response().Header().Set(csrfHeader, s.CSRFToken)
	}
}

// audit logs what an operator, or a program like fail2ban, wants to know. No
// attribute may be a secret, nor a username that somebody typed: it could be a
// password.
func (a *api) audit(c echo.Context, event string, attrs ...any) {
	attrs = append([]any{"event", event, "ip", c.RealIP(), "request_id", c.Response().Header().Get(serve.RequestIDHeader)}, attrs...)
	a.log.InfoContext(c.Request().Context(), "audit", attrs...)
}

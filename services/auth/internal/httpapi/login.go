package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// login is POST /login (contract section 4).
func (a *api) login(c echo.Context) (answer, error) {
	var body struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	if err := decode(c.Response(), c.Request(), &body); err != nil {
		return answer{}, err
	}
	var s session.Session
	u, err := a.accounts.Login(c.Request().Context(), body.Username, body.Password, func(ctx context.Context, l session.Login) (err error) {
		s, err = a.sessions.Start(c.Response(), c.Request().WithContext(ctx), l)
		return err
	})
	a.metrics.login(err)
	if err != nil {
		if errors.Is(err, account.ErrInvalidCredentials) {
			a.audit(c, "login_failed", "user_id", u.ID)
		}
		return answer{}, err
	}
	a.audit(c, "login", "user_id", u.ID)
	if !isHTTPS(c.Request()) {
		a.warnPlainHTTP()
	}
	return a.sessionAnswer(c, u, s), nil
}

// isHTTPS tells whether the browser speaks https, as far as anybody says. It
// decides nothing.
func isHTTPS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// logout is POST /logout.
func (a *api) logout(c echo.Context, s caller) (answer, error) {
	if err := a.sessions.End(c.Response(), c.Request()); err != nil {
		return answer{}, err
	}
	a.audit(c, "logout", "user_id", s.UserID)
	return done, nil
}

// sessionAnswer is the answer of login and me: the user and, but for the earlier
// variant, the CSRF token, for pages that cannot read the cookie.
func (a *api) sessionAnswer(c echo.Context, u user.User, s session.Session) answer {
	body := struct {
		User      userBody `json:"user"`
		CSRFToken string   `json:"csrfToken,omitempty"`
	}{User: bodyOf(u)}
	if !a.compatV0 {
		body.CSRFToken = s.CSRFToken
		tellCSRFToken(c, s)
	}
	return answer{http.StatusOK, body}
}

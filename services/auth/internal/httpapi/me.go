package httpapi

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// me is GET /me. Both cookies are sent again, and a session without CSRF token
// gets one; the earlier variant does neither. A session whose user is gone
// ends.
func (a *api) me(c echo.Context, s session.Session) (answer, error) {
	u, err := a.accounts.User(c.Request().Context(), s.UserID)
	if errors.Is(err, user.ErrNotFound) {
		if err := a.sessions.End(c.Response(), c.Request()); err != nil {
			return answer{}, err
		}
		return answer{}, session.ErrNotFound
	}
	if err != nil {
		return answer{}, err
	}
	if !a.compatV0 {
		if s, err = a.sessions.Resend(c.Response(), c.Request()); err != nil {
			return answer{}, err
		}
	}
	return a.sessionAnswer(c, u, s), nil
}

// changePassword is PATCH /me/password.
func (a *api) changePassword(c echo.Context, s session.Session) (answer, error) {
	var body struct {
		Current string `json:"current_password"`
		New     string `json:"new_password"`
	}
	if err := decode(c.Response(), c.Request(), &body); err != nil {
		return answer{}, err
	}
	if err := a.accounts.ChangePassword(c.Request().Context(), s, body.Current, body.New); err != nil {
		if errors.Is(err, account.ErrWrongPassword) {
			a.audit(c, "password_change_failed", "user_id", s.UserID)
		}
		return answer{}, err
	}
	a.audit(c, "password_changed", "user_id", s.UserID)
	return done, nil
}

package httpapi

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/account"
)

// me is GET /me. Both cookies are sent again, and a session without CSRF token
// gets one; the earlier variant does neither.
func (a *api) me(c echo.Context, s caller) (answer, error) {
	if a.compatV0 {
		return a.sessionAnswer(c, s.user, s.Session), nil
	}
	current, err := a.accounts.EnsureCSRFToken(c.Request().Context(), s.Session)
	if err != nil {
		return answer{}, err
	}
	if err := a.sessions.Resend(c.Response(), c.Request(), current); err != nil {
		return answer{}, err
	}
	return a.sessionAnswer(c, s.user, current), nil
}

// changePassword is PATCH /me/password.
func (a *api) changePassword(c echo.Context, s caller) (answer, error) {
	var body struct {
		Current string `json:"current_password"`
		New     string `json:"new_password"`
	}
	if err := decode(c.Response(), c.Request(), &body); err != nil {
		return answer{}, err
	}
	err := a.accounts.ChangePassword(c.Request().Context(), s.Session, body.Current, body.New)
	switch {
	case err == nil, errors.Is(err, account.ErrPending):
		a.audit(c, "password_changed", "user_id", s.UserID)
	case errors.Is(err, account.ErrWrongPassword):
		a.audit(c, "password_change_failed", "user_id", s.UserID)
	}
	return done, err
}

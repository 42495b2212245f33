package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// signIn has the handlers of logins, sessions and passwords of users.
type signIn struct{ *api }

// login is POST /login (AUTH-4).
func (a signIn) login(c echo.Context, _ web.Caller, body struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Remember *bool  `json:"remember"` // this device; missing: SESSION_LIFETIME
},
) (answer, error) {
	in, err := a.Login(c.Response(), c.Request(), body.Username, body.Password, session.DeviceOf(body.Remember))
	if err != nil {
		return answer{}, err
	}
	if in.Pending != nil {
		return pendingAnswer(in.Pending), nil
	}
	return a.sessionAnswer(c, in.User, in.Session), nil
}

// config is GET /oidc/config, for the login page of Yuvomi, which asks how it may log its users in: by a password, and
// not at a provider of another.
func (a signIn) config(echo.Context, web.Caller) (answer, error) {
	return answer{http.StatusOK, struct {
		Enabled       bool `json:"enabled"`
		Password      bool `json:"password_login_enabled"`
		GuestPassword bool `json:"guest_password_login_enabled"`
	}{Password: true}}, nil
}

// logout is POST /logout.
func (a signIn) logout(c echo.Context, s web.Caller) (answer, error) {
	return done, a.Logout(c.Response(), c.Request(), s)
}

// sessionAnswer returns an answer with the user and, unless CompatV0 is set, the CSRF token, for pages
// that cannot read the cookie.
func (a *api) sessionAnswer(c echo.Context, u user.User, s session.Session) answer {
	body := struct {
		User      userBody `json:"user"`
		CSRFToken string   `json:"csrfToken,omitempty"`
	}{User: bodyOf(u)}
	if !a.CompatV0 {
		body.CSRFToken = s.CSRFToken
		setCSRFHeader(c, s)
	}
	return answer{http.StatusOK, body}
}

// me is GET /me. Both cookies are sent again, and a session without a CSRF token gets
// one, unless CompatV0 is set.
func (a signIn) me(c echo.Context, s web.Caller) (answer, error) {
	if a.CompatV0 {
		return a.sessionAnswer(c, s.User, s.Session), nil
	}
	var err error
	if s.Session, err = a.Accounts.EnsureCSRFToken(c.Request().Context(), s.Session); err != nil {
		return answer{}, err
	}
	if err := a.Sessions.Resend(c.Response(), s.Current); err != nil {
		return answer{}, err
	}
	return a.sessionAnswer(c, s.User, s.Session), nil
}

// changePassword is PATCH /me/password.
func (a signIn) changePassword(c echo.Context, s web.Caller, body struct {
	Current string `json:"current_password"`
	New     string `json:"new_password"`
},
) (answer, error) {
	return done, a.ChangePassword(c.Response(), c.Request(), s, body.Current, body.New)
}

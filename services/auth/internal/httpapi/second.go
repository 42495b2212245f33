package httpapi

import (
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// factors has the handlers of second factors.
type factors struct{ *api }

// stepUpIfFactor is stepUp for users with a second factor, and arrived for others; a user who was deleted passes.
func (a *api) stepUpIfFactor(h handler) handler {
	fresh, live := a.stepUp(h), a.arrived(h)
	return func(c echo.Context, s web.Caller) (answer, error) {
		switch {
		case s.User.SecondFactor:
			return fresh(c, s)
		case s.User.ID != 0:
			return live(c, s)
		}
		return h(c, s)
	}
}

// pendingAnswer returns the answer of login to a user with a second factor.
func pendingAnswer(p *account.PendingLogin) answer {
	return answer{http.StatusOK, struct {
		Required          bool     `json:"twoFactorRequired"`
		RecoveryAvailable bool     `json:"recoveryAvailable"`
		Methods           []string `json:"methods"`
	}{true, p.RecoveryAvailable, p.Methods}}
}

// verifyCode is POST /2fa/verify.
func (a signIn) verifyCode(c echo.Context, _ web.Caller, body codeBody) (answer, error) {
	defer a.detach(c)()
	in, method, left, err := a.VerifyCode(c.Response(), c.Request(), body.Code)
	if err != nil {
		return answer{}, err
	}
	setCSRFHeader(c, in.Session)
	return answer{http.StatusOK, struct {
		User              userBody `json:"user"`
		CSRFToken         string   `json:"csrfToken"`
		Method            string   `json:"twoFactorMethod"`
		RecoveryRemaining int      `json:"recoveryRemaining"`
	}{bodyOf(in.User), in.Session.CSRFToken, method, left}}, nil
}

// codeBody has a code of an app or of recovery.
type codeBody struct {
	Code string `json:"code"`
}

// cancelLogin is DELETE /2fa/pending.
func (a signIn) cancelLogin(c echo.Context, _ web.Caller) (answer, error) {
	return done, a.CancelLogin(c.Response(), c.Request())
}

// data returns the answer {"data": v}, with status 200.
func data(v any) answer { return dataAnswer(http.StatusOK, v) }

// dataAnswer returns the answer {"data": v}.
func dataAnswer(status int, v any) answer {
	return answer{status, struct {
		Data any `json:"data"`
	}{v}}
}

// dataOf returns the answer of data with the body of each value, and err.
func dataOf[T, B any](values []T, err error, body func(T) B) (answer, error) {
	bodies := make([]B, len(values)) // never nil, which would be null in JSON
	for i, v := range values {
		bodies[i] = body(v)
	}
	return data(bodies), err
}

// factorState is GET /2fa.
func (a factors) factorState(c echo.Context, s web.Caller) (answer, error) {
	state, err := a.Accounts.SecondFactor.State(c.Request().Context(), s.Session)
	return data(struct {
		Enabled           bool `json:"enabled"`
		Pending           bool `json:"pending"`
		RecoveryRemaining int  `json:"recovery_remaining"`
		Required          bool `json:"required"`
		Passkeys          int  `json:"passkeys"`
	}{state.Enabled, state.Pending(), state.Recovery, state.Required, state.Passkeys}), err
}

// setupTOTP is POST /2fa/setup.
func (a factors) setupTOTP(c echo.Context, s web.Caller) (answer, error) {
	setup, err := a.Accounts.SecondFactor.SetupTOTP(c.Request().Context(), s.Session)
	if err != nil {
		return answer{}, err
	}
	body := struct {
		Secret string `json:"secret"`
		URI    string `json:"uri"`
		QR     string `json:"qr,omitempty"` // SVG, as a data URL
	}{Secret: setup.Secret, URI: setup.URI}
	if a.QR != nil {
		svg, err := a.QR(setup.URI)
		if err != nil {
			return answer{}, err
		}
		body.QR = "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg))
	}
	return data(body), nil
}

// recoveryAnswer returns the answer with recovery codes, which are shown once. Codes with account.ErrPending are an
// answer too.
func recoveryAnswer(codes []string, err error) (answer, error) {
	if err != nil && (codes == nil || !errors.Is(err, account.ErrPending)) {
		return answer{}, err
	}
	return data(struct {
		Codes []string `json:"recovery_codes"`
	}{codes}), nil // where sessions have yet to end, they are refused already
}

// enableFactor is POST /2fa/enable.
func (a factors) enableFactor(c echo.Context, s web.Caller, body struct {
	Code    string `json:"code"`
	Passkey bool   `json:"passkey"`
},
) (answer, error) {
	if body.Passkey {
		return recoveryAnswer(a.Accounts.SecondFactor.EnableByPasskey(c.Request().Context(), s.Session))
	}
	return recoveryAnswer(a.Accounts.SecondFactor.EnableTOTP(c.Request().Context(), s.Session, body.Code))
}

// disableFactor is POST /2fa/disable.
func (a factors) disableFactor(c echo.Context, s web.Caller, body codeBody) (answer, error) {
	if err := a.Accounts.SecondFactor.Disable(c.Request().Context(), s.Session, body.Code); err != nil {
		return answer{}, err
	}
	return a.factorState(c, s)
}

// newRecoveryCodes is POST /2fa/recovery-codes.
func (a factors) newRecoveryCodes(c echo.Context, s web.Caller, body codeBody) (answer, error) {
	return recoveryAnswer(a.Accounts.SecondFactor.NewRecoveryCodes(c.Request().Context(), s.Session, body.Code))
}

// requireFactor is PUT /2fa/require.
func (a factors) requireFactor(c echo.Context, s web.Caller, body struct {
	Required *bool `json:"required"`
},
) (answer, error) {
	if body.Required == nil {
		return answer{}, account.ErrMissing
	}
	err := a.Accounts.SecondFactor.Require(c.Request().Context(), s.Session, *body.Required)
	return data(map[string]bool{"required": *body.Required}), err
}

// factorOverview is GET /2fa/overview.
func (a factors) factorOverview(c echo.Context, _ web.Caller) (answer, error) {
	members, required, err := a.People.FactorOverview(c.Request().Context())
	if err != nil {
		return answer{}, err
	}
	type member struct {
		UserID      int64  `json:"user_id"`
		DisplayName string `json:"display_name"`
		Enabled     bool   `json:"enabled"`
	}
	list := make([]member, len(members))
	for i, m := range members {
		list[i] = member{m.ID, m.DisplayName, m.Protected()}
	}
	return answer{http.StatusOK, struct {
		Data     []member `json:"data"`
		Required bool     `json:"required"`
	}{list, required}}, nil
}

// resetFactor is DELETE /users/:id/2fa.
func (a factors) resetFactor(c echo.Context, s web.Caller, id int64) (answer, error) {
	return done, a.Accounts.SecondFactor.Reset(c.Request().Context(), s.Session, id)
}

// reauth is POST /reauth.
func (a signIn) reauth(c echo.Context, s web.Caller, body struct {
	Password string `json:"password"`
	Code     string `json:"code"`
},
) (answer, error) {
	defer a.detach(c)()
	in, err := a.Reauth(c.Response(), c.Request(), s, body.Password, body.Code)
	if err != nil {
		return answer{}, err
	}
	return a.sessionAnswer(c, in.User, in.Session), nil
}

// listedSession is a session as its user sees it.
type listedSession struct {
	ID         string `json:"id"` // its key, which is no credential
	Current    bool   `json:"current"`
	CreatedAt  string `json:"created_at"` // RFC 3339, UTC, in seconds, as the others
	LastUsedAt string `json:"last_used_at"`
	ExpiresAt  string `json:"expires_at"`
	Browser    string `json:"browser"`
	System     string `json:"system"`
	IP         string `json:"ip"`
	Factor     string `json:"factor"`
	Remember   *bool  `json:"remember,omitempty"` // as said at the login
}

// listSessions is GET /sessions.
func (a signIn) listSessions(c echo.Context, s web.Caller) (answer, error) {
	infos, err := a.Accounts.OwnSessions(c.Request().Context(), s.Session)
	return dataOf(infos, err, func(info session.Info) listedSession {
		browser, system := session.BrowserOf(info.UserAgent)
		return listedSession{
			ID: info.Key, Current: info.Key == s.Key, CreatedAt: rfc3339(info.CreatedAt),
			LastUsedAt: rfc3339(info.LastUsedAt), ExpiresAt: rfc3339(info.ExpiresAt),
			Browser: browser, System: system, IP: info.IP, Factor: string(info.Factor),
			Remember: info.Device.Remember(),
		}
	})
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// endOneSession is DELETE /sessions/:id.
func (a signIn) endOneSession(c echo.Context, s web.Caller) (answer, error) {
	if c.Param("id") == s.Key {
		return a.logout(c, s)
	}
	return done, a.Accounts.EndSession(c.Request().Context(), s.Session, c.Param("id"))
}

// logoutOthers is POST /logout-others.
func (a signIn) logoutOthers(c echo.Context, s web.Caller) (answer, error) {
	ended, err := a.Accounts.EndOthers(c.Request().Context(), s.Session)
	return answer{http.StatusOK, struct {
		OK    bool `json:"ok"`
		Ended int  `json:"ended"`
	}{true, ended}}, err
}

package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

type passkeys struct{ *api }

// ceremony passes at most web.PasskeyAttempts requests of an address in web.PasskeyWindow. It is for what
// web.Web.CountedPasskey counts: the store keeps ceremonies for minutes.
func (a *api) ceremony(h handler) handler {
	return func(c echo.Context, s web.Caller) (answer, error) {
		if s.Current == nil {
			c.SetRequest(a.As(c.Response(), c.Request(), web.Caller{}))
		}
		if err := a.CountedPasskey(c.Response(), c.Request(), service.RouteLabel(c)); err != nil {
			return answer{}, err
		}
		return h(c, s)
	}
}

// options returns the answer with the options of a ceremony, whose cookie it sets.
func (a passkeys) options(c echo.Context, begun account.PasskeyCeremony, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	a.Sessions.StartCeremony(c.Response(), begun.ID)
	return answer{http.StatusOK, begun.Options}, nil
}

// passkeyRequest is what comes with a browser's answer to a ceremony.
type passkeyRequest struct {
	Name       string          `json:"name"`      // of a new passkey
	Remember   *bool           `json:"remember"`  // of a login
	Token      string          `json:"token"`     // of a link
	UserCode   string          `json:"user_code"` // of a device for which the user proves who they are
	Credential json.RawMessage `json:"credential"`
}

// passkeyAnswer reads a browser's answer to a ceremony, whose ID is in a cookie, and clears the
// cookie. Without the cookie the ID is empty. account.ErrMissing where there is no credential.
func (a passkeys) passkeyAnswer(c echo.Context) (body passkeyRequest, given account.PasskeyAnswer, err error) {
	if err := decode(c.Response(), c.Request(), &body); err != nil {
		return passkeyRequest{}, account.PasskeyAnswer{}, err
	}
	if len(body.Credential) == 0 {
		return passkeyRequest{}, account.PasskeyAnswer{}, account.ErrMissing
	}
	given.Credential = body.Credential
	if given.CeremonyID, err = a.Sessions.LoadCeremony(c.Request()); err == nil {
		a.Sessions.ClearCeremony(c.Response())
	}
	return body, given, nil
}

// passkeyLoginOptions is POST /passkeys/login/options.
func (a passkeys) passkeyLoginOptions(c echo.Context, _ web.Caller) (answer, error) {
	begun, err := a.Accounts.Passkeys.LoginOptions(c.Request().Context())
	return a.options(c, begun, err)
}

// passkeyLogin is POST /passkeys/login.
func (a passkeys) passkeyLogin(c echo.Context, _ web.Caller) (answer, error) {
	return a.byPasskey(c, func(given account.PasskeyAnswer, body passkeyRequest) (account.LoggedIn, error) {
		return a.PasskeyLogin(c.Response(), c.Request(), given, session.DeviceOf(body.Remember))
	})
}

// byPasskey returns the answer with the session that finish creates for a browser's answer.
func (a passkeys) byPasskey(
	c echo.Context, finish func(account.PasskeyAnswer, passkeyRequest) (account.LoggedIn, error),
) (answer, error) {
	body, given, err := a.passkeyAnswer(c)
	if err != nil {
		return answer{}, err
	}
	in, err := finish(given, body)
	if err != nil {
		return answer{}, err
	}
	return a.sessionAnswer(c, in.User, in.Session), nil
}

// joinOptions is POST /join/passkey/options, of an invite or a set-up link.
func (a passkeys) joinOptions(c echo.Context, _ web.Caller, body struct {
	Token       string `json:"token"`
	Household   string `json:"household"` // of a set-up
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
},
) (answer, error) {
	begun, err := a.People.PasskeyOptions(c.Request().Context(), body.Token, people.NewHousehold{
		Household: body.Household, Username: body.Username, DisplayName: body.DisplayName,
	})
	return a.options(c, begun, err)
}

// join is POST /join/passkey. The user gets the names that joinOptions was sent.
func (a passkeys) join(c echo.Context, _ web.Caller) (answer, error) {
	body, given, err := a.passkeyAnswer(c)
	if err != nil {
		return answer{}, err
	}
	created, err := a.JoinByPasskey(c.Response(), c.Request(), body.Token, given)
	if errors.Is(err, factor.ErrPasskeyFailed) {
		a.Log.InfoContext(c.Request().Context(), "new passkey refused", "error", err)
		return answer{}, web.ErrNotRegistered
	}
	return userAnswer(http.StatusCreated, created), err
}

// passkeySecondOptions is POST /2fa/passkey/options.
func (a passkeys) passkeySecondOptions(c echo.Context, _ web.Caller) (answer, error) {
	ref, err := a.Sessions.LoadPending(c.Request())
	if err != nil {
		return answer{}, account.ErrNoPendingLogin
	}
	begun, err := a.Accounts.Passkeys.SecondOptions(c.Request().Context(), ref)
	return a.options(c, begun, err)
}

// passkeySecond is POST /2fa/passkey.
func (a passkeys) passkeySecond(c echo.Context, _ web.Caller) (answer, error) {
	return a.byPasskey(c, func(given account.PasskeyAnswer, _ passkeyRequest) (account.LoggedIn, error) {
		return a.PasskeySecond(c.Response(), c.Request(), given)
	})
}

// passkeyReauthOptions is POST /reauth/passkey/options.
func (a passkeys) passkeyReauthOptions(c echo.Context, s web.Caller) (answer, error) {
	begun, err := a.Accounts.Passkeys.ReauthOptions(c.Request().Context(), s.Session)
	return a.options(c, begun, err)
}

// passkeyReauth is POST /reauth/passkey.
func (a passkeys) passkeyReauth(c echo.Context, s web.Caller) (answer, error) {
	return a.byPasskey(c, func(given account.PasskeyAnswer, body passkeyRequest) (account.LoggedIn, error) {
		in, err := a.PasskeyReauth(c.Response(), c.Request(), s, given)
		if err == nil {
			a.OIDC.ProvedForDevice(c.Request().Context(), body.UserCode, in.Session)
		}
		return in, err
	})
}

// passkeyBody is a passkey as its user sees it.
type passkeyBody struct {
	ID         int64   `json:"id"`
	Name       string  `json:"name"`
	CreatedAt  string  `json:"created_at"`
	LastUsedAt *string `json:"last_used_at"` // null: not used yet
	Synced     bool    `json:"synced"`
}

func passkeyOf(p account.PasskeyInfo) passkeyBody {
	return passkeyBody{p.ID, p.Name, p.CreatedAt.Format(time.RFC3339), orNull(p.LastUsedAt), p.Synced}
}

// listPasskeys is GET /passkeys.
func (a passkeys) listPasskeys(c echo.Context, s web.Caller) (answer, error) {
	list, err := a.Accounts.Passkeys.List(c.Request().Context(), s.UserID)
	return dataOf(list, err, passkeyOf)
}

// passkeyRegisterOptions is POST /passkeys/options.
func (a passkeys) passkeyRegisterOptions(c echo.Context, s web.Caller) (answer, error) {
	begun, err := a.Accounts.Passkeys.RegisterOptions(c.Request().Context(), s.Session)
	return a.options(c, begun, err)
}

// createPasskey is POST /passkeys.
func (a passkeys) createPasskey(c echo.Context, s web.Caller) (answer, error) {
	body, given, err := a.passkeyAnswer(c)
	if err != nil {
		return answer{}, err
	}
	added, err := a.Accounts.Passkeys.Register(c.Request().Context(), s.Session, body.Name, given)
	if errors.Is(err, factor.ErrPasskeyFailed) {
		a.Log.InfoContext(c.Request().Context(), "new passkey refused", "user_id", s.UserID, "error", err)
		return answer{}, web.ErrNotRegistered
	}
	return dataAnswer(http.StatusCreated, passkeyOf(added)), err
}

// renamePasskey is PATCH /passkeys/:id.
func (a passkeys) renamePasskey(c echo.Context, s web.Caller) (answer, error) {
	id, err := web.ParseID(c.Param("id"))
	if err != nil {
		return answer{}, web.ErrUnknownPasskey
	}
	var body struct {
		Name string `json:"name"`
	}
	if err := decode(c.Response(), c.Request(), &body); err != nil {
		return answer{}, err
	}
	renamed, err := a.Accounts.Passkeys.Rename(c.Request().Context(), s.Session, id, body.Name)
	return data(passkeyOf(renamed)), web.OfPasskey(err)
}

// deletePasskey is DELETE /passkeys/:id.
func (a passkeys) deletePasskey(c echo.Context, s web.Caller, id int64) (answer, error) {
	return done, web.OfPasskey(a.Accounts.Passkeys.Remove(c.Request().Context(), s.Session, id))
}

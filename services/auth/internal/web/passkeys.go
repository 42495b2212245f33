package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// PasskeyAttempts and PasskeyWindow limit the requests of an address that CountedPasskey counts.
const (
	PasskeyAttempts = 30
	PasskeyWindow   = time.Minute
)

// CountedPasskey is Counted, by PasskeyLimit, for a request that begins a ceremony, but not to use a link, or that
// finishes one for a second step or a new proof of who the user is. ErrLimited, ErrForeignPage.
func (w *Web) CountedPasskey(rw http.ResponseWriter, r *http.Request, route string) error {
	return w.countedHere(rw, r, route, LimitPasskey, w.PasskeyLimit)
}

// PasskeyLogin is Login by the passkey that answered, which is both factors at once: no login is pending. Errors are
// those of account.Passkeys.Login, and of the session store.
func (w *Web) PasskeyLogin(
	rw http.ResponseWriter, r *http.Request, given account.PasskeyAnswer, on session.Device,
) (account.LoggedIn, error) {
	r = w.As(rw, r, Caller{})
	credentials, err := w.knowing(r, on)
	var in account.LoggedIn
	if err == nil {
		in, err = w.Accounts.Passkeys.Login(r.Context(), given, credentials)
	}
	w.Metrics.login(false, err)
	if err != nil {
		w.passkeyFailed(rw, r, in.User.ID, err)
		return account.LoggedIn{}, err
	}
	return in, w.knownIn(rw, r, in, credentials.Browser)
}

// JoinByPasskey creates the user of a link by the passkey that answered, and logs them in. Where the login fails, they
// are there all the same and log in themselves. Errors are those of people.Service.JoinByPasskey.
func (w *Web) JoinByPasskey(
	rw http.ResponseWriter, r *http.Request, token string, given account.PasskeyAnswer,
) (user.User, error) {
	r = w.As(rw, r, Caller{})
	created, err := w.People.JoinByPasskey(r.Context(), token, given, r.UserAgent())
	if err != nil {
		return user.User{}, err
	}
	credentials, err := w.knowing(r, session.AnyDevice)
	var in account.LoggedIn
	if err == nil {
		in, err = w.Accounts.Passkeys.LoginNewcomer(r.Context(), created, credentials)
	}
	w.Metrics.login(false, err)
	if err == nil {
		err = w.knownIn(rw, r, in, credentials.Browser)
	}
	if err != nil {
		w.Log.WarnContext(r.Context(), "log in who used a link failed", "error", err)
	}
	return created, nil
}

// PasskeySecond finishes the pending login of the request by the passkey that answered and
// sets the cookies of its session. Errors are account.ErrNoPendingLogin and those of
// account.Passkeys.Second.
func (w *Web) PasskeySecond(
	rw http.ResponseWriter, r *http.Request, given account.PasskeyAnswer,
) (account.LoggedIn, error) {
	ref, err := w.Sessions.LoadPending(r)
	if err != nil {
		return account.LoggedIn{}, account.ErrNoPendingLogin
	}
	r = w.As(rw, r, Caller{})
	credentials, err := w.knowing(r, session.AnyDevice)
	var in account.LoggedIn
	if err == nil {
		in, err = w.Accounts.Passkeys.Second(r.Context(), ref, credentials, given)
	}
	w.Metrics.secondFactor("passkey", err)
	switch {
	case err == nil:
		return in, w.knownIn(rw, r, in, credentials.Browser)
	case errors.Is(err, account.ErrNoPendingLogin):
		w.Sessions.ClearPending(rw)
	default:
		w.passkeyFailed(rw, r, ref.UserID, err)
	}
	return account.LoggedIn{}, err
}

// PasskeyReauth has a caller prove again who they are by the passkey that answered, and sets
// the cookies of the session that replaces theirs. Errors are those of
// account.Passkeys.Reauth.
func (w *Web) PasskeyReauth(
	rw http.ResponseWriter, r *http.Request, c Caller, given account.PasskeyAnswer,
) (account.LoggedIn, error) {
	in, err := w.Accounts.Passkeys.Reauth(r.Context(), c.Session, given)
	w.Metrics.reauth(err)
	if err != nil {
		w.passkeyFailed(rw, r, c.UserID, err)
		return account.LoggedIn{}, err
	}
	_, err = w.Reauthenticated(rw, r, c, in)
	return in, err
}

func (w *Web) passkeyFailed(rw http.ResponseWriter, r *http.Request, userID int64, err error) {
	if errors.Is(err, factor.ErrPasskeyFailed) {
		w.LogEvent(rw, r, "passkey_failed", "user_id", userID)
	}
	if errors.Is(err, account.ErrClosed) {
		w.LogEvent(rw, r, "login_refused", "user_id", userID)
	}
}

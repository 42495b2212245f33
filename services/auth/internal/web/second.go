package web

import (
	"errors"
	"net/http"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// PendingLogin returns the login that the request is to finish. account.ErrNoPendingLogin.
func (w *Web) PendingLogin(r *http.Request) (account.PendingLogin, error) {
	ref, err := w.Sessions.LoadPending(r)
	if err != nil {
		return account.PendingLogin{}, account.ErrNoPendingLogin
	}
	return w.Accounts.PendingLogin(r.Context(), ref)
}

// CancelLogin ends the pending login of the request. account.ErrNoPendingLogin.
func (w *Web) CancelLogin(rw http.ResponseWriter, r *http.Request) error {
	ref, err := w.Sessions.LoadPending(r)
	if err != nil {
		return account.ErrNoPendingLogin
	}
	if err := w.Accounts.CancelLogin(r.Context(), ref); err != nil {
		return err
	}
	w.Sessions.ClearPending(rw)
	return nil
}

// VerifyCode finishes the pending login of the request and sets the cookies of its session. It returns the method of
// the code and how many recovery codes are left. Errors are those of account.Service.VerifyCode.
func (w *Web) VerifyCode(
	rw http.ResponseWriter, r *http.Request, code string,
) (in account.LoggedIn, method string, left int, err error) {
	ref, err := w.Sessions.LoadPending(r)
	if err != nil {
		return account.LoggedIn{}, "", 0, account.ErrNoPendingLogin
	}
	r = w.As(rw, r, Caller{})
	credentials, err := w.knowing(r, session.AnyDevice)
	if err == nil {
		in, method, left, err = w.Accounts.VerifyCode(r.Context(), ref, credentials, code)
	}
	w.Metrics.secondFactor(method, err)
	switch {
	case err == nil:
		return in, method, left, w.knownIn(rw, r, in, credentials.Browser)
	case errors.Is(err, account.ErrNoPendingLogin):
		w.Sessions.ClearPending(rw)
	case errors.Is(err, factor.ErrInvalidCode):
		w.LogEvent(rw, r, "second_factor_failed", "user_id", ref.UserID)
	}
	return account.LoggedIn{}, "", 0, err
}

// Reauth has a caller prove again who they are and sets the cookies of the session that
// replaces theirs. Errors are those of account.Service.Reauth.
func (w *Web) Reauth(
	rw http.ResponseWriter, r *http.Request, c Caller, password, code string,
) (account.LoggedIn, error) {
	in, err := w.Accounts.Reauth(r.Context(), c.Session, password, code)
	w.Metrics.reauth(err)
	if err != nil {
		if errors.Is(err, account.ErrReauthPassword) || errors.Is(err, factor.ErrInvalidCode) {
			w.LogEvent(rw, r, "reauth_failed", "user_id", c.UserID)
		}
		return account.LoggedIn{}, err
	}
	_, err = w.Reauthenticated(rw, r, c, in)
	return in, err
}

// Reauthenticated sets the cookies of the session that replaces a caller's, and returns who the caller then is.
func (w *Web) Reauthenticated(
	rw http.ResponseWriter, r *http.Request, c Caller, in account.LoggedIn,
) (Caller, error) {
	w.Sessions.Forget(c.Current)
	next, err := w.Sessions.Start(rw, in.Session, in.SessionID)
	if err != nil {
		return Caller{}, err
	}
	w.LogEvent(rw, r, "reauth", "user_id", c.UserID)
	return Caller{Current: next, User: in.User}, nil
}

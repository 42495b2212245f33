package account

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// FreshFor is how long an authentication counts for changes that need a recent one.
const FreshFor = 10 * time.Minute

// RecentFor is how long an authentication counts for looking at the audit and at other people's data.
const RecentFor = 24 * time.Hour

// ErrReauthRequired is returned when the session's user has to prove again who they are.
var ErrReauthRequired = errors.New("a fresh proof of who the user is, is required")

// CheckFresh returns ErrReauthRequired unless the user of a session has proved who they
// are in the last FreshFor, and with a second factor where they have one.
func (s *Service) CheckFresh(of session.Session, u user.User) error {
	if !s.provedWithin(of, FreshFor) || u.SecondFactor && !of.Factor.Second() {
		return ErrReauthRequired
	}
	return nil
}

// CheckRecent returns ErrReauthRequired unless the user of a session has proved who they are in the last RecentFor.
func (s *Service) CheckRecent(of session.Session) error {
	if !s.provedWithin(of, RecentFor) {
		return ErrReauthRequired
	}
	return nil
}

// provedWithin reports whether the proof of a session is no older than d.
func (s *Service) provedWithin(of session.Session, d time.Duration) bool {
	now := s.now()
	return of.ProvedSince(now.Add(-d), now)
}

// ErrReauthPassword is returned by Reauth for a wrong password.
var ErrReauthPassword = errors.New("wrong password")

// Reauth has the user of a session prove again who they are, by the password, and by a code too where they have a
// second factor. The session is replaced by one with another id. ErrReauthPassword, factor.ErrInvalidCode,
// factor.ErrNotConfigured, factor.ErrSealed, ErrMissing, ErrTooLong, password.ErrBusy; ratelimit.LimitedError with
// ErrTooManyTries or ErrTooManyCodes; session.ErrNotFound.
func (s *Service) Reauth(ctx context.Context, of session.Session, pw, code string) (LoggedIn, error) {
	if pw == "" {
		return LoggedIn{}, ErrMissing
	}
	if utf8.RuneCountInString(pw) > password.MaxLength {
		return LoggedIn{}, ErrTooLong
	}
	d, err := s.limits.Reauth.Spend(ctx, strconv.FormatInt(of.UserID, 10))
	if err != nil {
		return LoggedIn{}, err
	}
	if !d.Allowed {
		return LoggedIn{}, &ratelimit.LimitedError{Limit: d, Err: ErrTooManyTries}
	}
	in, err := s.reauthenticate(ctx, of, func(ctx context.Context, u user.User) (session.Factor, error) {
		return s.provePassword(ctx, u, pw, code)
	})
	if errors.Is(err, ErrReauthPassword) || errors.Is(err, factor.ErrInvalidCode) {
		s.recordFailed(ctx, "reauth_failed", of)
	} else {
		d = s.refund(ctx, s.limits.Reauth, d)
	}
	watched(ctx, d)
	return in, err
}

// provePassword checks the password and, of a user with a second factor, uses a code up. It returns what was proved.
// ErrReauthPassword, password.ErrBusy; factor.ErrInvalidCode, also where code is empty; and the other errors of
// limitedCode and useCode.
func (s *Service) provePassword(ctx context.Context, u user.User, pw, code string) (session.Factor, error) {
	if _, err := s.passwords.Verify(ctx, u.PasswordHash, pw); errors.Is(err, password.ErrMismatch) {
		return "", ErrReauthPassword
	} else if err != nil {
		return "", err
	}
	if !u.SecondFactor {
		return session.Password, nil
	}
	if code == "" {
		return "", factor.ErrInvalidCode
	}
	var proved session.Factor
	err := s.limitedCode(ctx, u, bucket(u.ID, "session"), methodOf(code), func() (err error) {
		proved, _, err = s.useCode(ctx, u, code)
		return err
	})
	return proved, err
}

// Proved replaces the session of a user who has just proved in it, by more than the password, who they are.
// session.ErrNotFound.
func (s *Service) Proved(ctx context.Context, of session.Session, by session.Factor) (LoggedIn, error) {
	return s.reauthenticate(ctx, of, func(context.Context, user.User) (session.Factor, error) { return by, nil })
}

// reauthenticate replaces the session of a user by one with another id once prove has
// shown who they are. session.ErrNotFound when the session has ended, or ends meanwhile, as
// with a new password; and the errors of prove.
//
// A store that answers too late may replace the session all the same, under an id that the client is not told: they log
// in again. To keep the old id for a retry would leave it to those who may have taken it.
func (s *Service) reauthenticate(
	ctx context.Context, of session.Session, prove func(context.Context, user.User) (session.Factor, error),
) (LoggedIn, error) {
	fence, err := s.sessions.Fence(ctx, of.UserID)
	if err != nil {
		return LoggedIn{}, fmt.Errorf("fence session: %w", err)
	}
	u, err := s.Holder(ctx, of)
	if errors.Is(err, user.ErrNotFound) {
		return LoggedIn{}, session.ErrNotFound
	}
	if err != nil {
		return LoggedIn{}, err
	}
	proved, err := prove(ctx, u)
	if err != nil {
		return LoggedIn{}, err
	}
	next, id := of.Next(proved, s.now())
	next.Username, next.Role, next.Stamp = u.Username, string(u.Role), u.SessionStamp
	err = s.sessions.Rotate(context.WithoutCancel(ctx), of.Ref, next, fence, s.lifetimes)
	if errors.Is(err, session.ErrFenced) {
		return LoggedIn{}, session.ErrNotFound
	}
	if err != nil {
		return LoggedIn{}, err
	}
	s.audit.Record(ctx, about("reauth", u))
	return LoggedIn{User: u, Session: next, SessionID: id}, nil
}

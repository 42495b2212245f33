package account

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// loginTries is how often a login, or a change of password, is tried if the user is changed meanwhile.
const loginTries = 3

// openTimeout bounds the steps from the fence to the session together, so that a
// store that is slow at each of them does not delay the answer by their sum.
const openTimeout = 2500 * time.Millisecond

// Credentials is what a client logs in with.
type Credentials struct {
	Username, Password string
	// UserAgent and IP, the client's address, are kept in the session; UserAgent is shortened.
	UserAgent, IP string
	// Browser is the value of the cookie by which the browser is known; empty: the client sent none.
	Browser string

	// Device is whose the device is, as the user says.
	Device session.Device

	rehash bool // Login has verified the password and found that its hash is to be replaced
	// Replaces is the live session that the request came with, which the login
	// ends; zero: none.
	Replaces session.Ref
}

// LoggedIn is the result of a login, or of a new proof of who the user is.
type LoggedIn struct {
	User    user.User
	Session session.Session
	// SessionID is for the session cookie; the store holds only its hash.
	SessionID string
	// Pending is the login that waits for a second factor; nil where a session was created.
	Pending *PendingLogin
}

// Login checks name and password and creates a session or, of a user with a second factor, a pending login.
// ErrMissing, ErrTooLong; ErrInvalidCredentials, after the same work for an unknown name and a wrong password;
// ErrClosed for the right password of a closed account; password.ErrBusy. With an error no session is returned, but
// the user's ID and Username where the name was found, for the log.
//
// A concurrent deletion, password change or revocation never leaves a session behind: the user is read again after the
// fence is taken, and creating the session fails with session.ErrFenced when the user's sessions were revoked since.
// Then, as when the password's hash has changed, the checks are repeated.
func (s *Service) Login(ctx context.Context, c Credentials) (LoggedIn, error) {
	in, err := s.login(ctx, c)
	switch {
	case err == nil && in.Pending == nil:
		s.finished(ctx, in, c.Browser)
	case err != nil:
		s.recordLogin(ctx, in, err)
	}
	return in, err
}

func (s *Service) login(ctx context.Context, c Credentials) (LoggedIn, error) {
	if c.Username == "" || c.Password == "" {
		return LoggedIn{}, ErrMissing
	}
	if utf8.RuneCountInString(c.Username) > user.MaxUsername ||
		utf8.RuneCountInString(c.Password) > password.MaxLength {
		return LoggedIn{}, ErrTooLong
	}
	u, err := s.users.ByUsername(ctx, c.Username)
	if errors.Is(err, user.ErrNotFound) {
		return LoggedIn{}, invalid(s.passwords.VerifyDummy(ctx, c.Password))
	}
	if err != nil {
		return LoggedIn{}, fmt.Errorf("find user: %w", err)
	}
	verified := ""
	for range loginTries {
		if u.PasswordHash != verified {
			if c.rehash, err = s.passwords.Verify(ctx, u.PasswordHash, c.Password); err != nil {
				return failedLogin(u), invalid(err)
			}
			verified = u.PasswordHash
		}
		in, err := s.createSession(ctx, u, c, session.Password, func(_ context.Context, now user.User) error {
			if now.PasswordHash != verified {
				return user.ErrChanged
			}
			return nil
		})
		switch {
		case err == nil:
			if c.rehash && in.Pending == nil {
				s.rehash(ctx, in.User, c.Password)
			}
			return in, nil
		case errors.Is(err, user.ErrChanged), errors.Is(err, session.ErrFenced):
			u = in.User
		default:
			return failedLogin(u), err
		}
	}
	return failedLogin(u), ErrInvalidCredentials
}

// failedLogin returns the result of a login that failed for a user who exists.
func failedLogin(u user.User) LoggedIn {
	return LoggedIn{User: user.User{ID: u.ID, New: user.New{Username: u.Username}}}
}

// recordLogin records the result of a login: a session, an account that is closed, or credentials that are wrong.
func (s *Service) recordLogin(ctx context.Context, in LoggedIn, err error) {
	switch {
	case err == nil && in.SessionID != "":
		s.audit.Record(audit.With(ctx, actorOf(ctx, in)), about("login", in.User))
	case errors.Is(err, ErrClosed):
		s.audit.RecordCounted(ctx, about("login_refused", in.User))
	case errors.Is(err, ErrInvalidCredentials):
		s.audit.RecordCounted(ctx, about("login_failed", in.User))
	}
}

// actorOf returns the user of a login as an actor, with the address and browser of the context's
// actor.
func actorOf(ctx context.Context, in LoggedIn) audit.Actor {
	by := audit.From(ctx)
	by.Kind, by.ID, by.Name, by.SessionKey = audit.User, in.User.ID, in.User.Username, in.Session.Key
	return by
}

// createSession creates the session of u, who proved by a factor who they are, and ends the one that it replaces; or,
// of a user with a second factor who proved a password only, the pending login. check is called after the fence is
// read, with the user as they are now, and returns an error unless the proof still holds. ErrInvalidCredentials, when
// the user is deleted; the error of check; ErrClosed; session.ErrFenced. With the last three the user is returned as
// they are now.
func (s *Service) createSession(
	ctx context.Context, u user.User, c Credentials, by session.Factor, check func(context.Context, user.User) error,
) (LoggedIn, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	fence, err := s.sessions.Fence(ctx, u.ID)
	if err != nil {
		return LoggedIn{}, fmt.Errorf("fence login: %w", err)
	}
	now, err := s.users.ByID(ctx, u.ID)
	if errors.Is(err, user.ErrNotFound) {
		return LoggedIn{}, ErrInvalidCredentials
	}
	if err != nil {
		return LoggedIn{}, fmt.Errorf("read user again: %w", err)
	}
	if err := check(ctx, now); err != nil {
		return LoggedIn{User: now}, err
	}
	if now.Closed(s.now()) {
		return LoggedIn{User: now}, ErrClosed
	}
	if now.SecondFactor && by == session.Password {
		if c.rehash { // before the pending login has a fingerprint of the hash
			now.PasswordHash = s.rehash(ctx, now, c.Password)
		}
		return s.createPending(ctx, now, c)
	}
	created, id := session.New(now.ID, c.UserAgent, s.now())
	created.Username, created.Role, created.Stamp = now.Username, string(now.Role), now.SessionStamp
	created.Factor, created.IP, created.Device = by, c.IP, c.Device
	if err := s.sessions.Create(ctx, created, fence, s.lifetimes); err != nil {
		return LoggedIn{User: now}, fmt.Errorf("create session: %w", err)
	}
	if c.Replaces != (session.Ref{}) {
		if err := s.endReplaced(ctx, c.Replaces); err != nil {
			undo := s.sessions.Delete(context.WithoutCancel(ctx), created.Ref)
			return LoggedIn{}, errors.Join(fmt.Errorf("end the replaced session: %w", err), undo)
		}
	}
	return LoggedIn{User: now, Session: created, SessionID: id}, nil
}

// invalid maps a failed comparison to ErrInvalidCredentials.
func invalid(err error) error {
	if errors.Is(err, password.ErrMismatch) {
		return ErrInvalidCredentials
	}
	return err
}

// rehash stores a hash of the configured cost and of the password's NFC form, and returns it. If that fails it
// returns the former one, and the next login tries again.
func (s *Service) rehash(ctx context.Context, u user.User, pw string) string {
	hash, err := s.passwords.Hash(ctx, pw)
	if err == nil {
		err = s.users.Rehash(ctx, u.ID, u.PasswordHash, hash)
	}
	if err != nil && !errors.Is(err, user.ErrChanged) && !errors.Is(err, user.ErrNotFound) {
		s.log.WarnContext(ctx, "rehash password failed", "user_id", u.ID, "error", err)
	}
	if err != nil {
		return u.PasswordHash
	}
	return hash
}

// LearnCosts reads the costs of the stored hashes, so that a failed login takes the
// same time for every name.
func (s *Service) LearnCosts(ctx context.Context) error {
	users, err := s.users.List(ctx)
	if err != nil {
		return err
	}
	for _, u := range users {
		s.passwords.Seen(u.PasswordHash)
	}
	return nil
}

// Logout ends a session at its user's wish, also when the client hangs up meanwhile.
func (s *Service) Logout(ctx context.Context, of session.Session) error {
	if err := s.End(ctx, of); err != nil {
		return err
	}
	s.audit.Record(ctx, audit.Event{Name: "logout", SubjectID: of.UserID, SubjectName: of.Username})
	return nil
}

// End ends a session, also when the client hangs up meanwhile. It calls Users.EndLogin first: after
// an interruption the session is still there, to be ended again.
func (s *Service) End(ctx context.Context, of session.Session) error {
	ctx = context.WithoutCancel(ctx)
	if err := s.users.EndLogin(ctx, of.UserID, of.Login); err != nil {
		return err
	}
	if err := s.sessions.Delete(ctx, of.Ref); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

// endReplaced ends the session that a login replaces, if it is live.
func (s *Service) endReplaced(ctx context.Context, ref session.Ref) error {
	replaced, err := s.sessions.Load(ctx, ref, session.Lifetimes{})
	if errors.Is(err, session.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.End(ctx, replaced)
}

// EnsureCSRFToken returns the session with a CSRF token, which it adds to one that
// was created without. session.ErrNotFound.
func (s *Service) EnsureCSRFToken(ctx context.Context, of session.Session) (session.Session, error) {
	if of.CSRFToken != "" {
		return of, nil
	}
	token, err := s.sessions.AddCSRFToken(ctx, of.Ref, session.NewCSRFToken())
	if err != nil {
		return session.Session{}, fmt.Errorf("add CSRF token: %w", err)
	}
	of.CSRFToken = token
	return of, nil
}

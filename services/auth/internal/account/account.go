package account

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Errors of the rules, beside those of user, session and password.
var (
	ErrMissing = errors.New("a required field is missing")
	ErrTooLong = errors.New("name or password is too long")
	// ErrInvalidCredentials does not reveal whether the user exists.
	ErrInvalidCredentials = errors.New("invalid credentials")
	ErrWrongPassword      = errors.New("wrong current password")
	// ErrPending is returned for a change that is saved while the session store
	// does not answer; Replay revokes the sessions when it does.
	ErrPending = errors.New("change saved; session revocation pending until the session store answers and auth runs")
	// ErrOwnAccount is returned to admins who delete themselves.
	ErrOwnAccount = errors.New("own account")
)

// Options are the parts of a Service; all fields but SessionLifetime are required.
type Options struct {
	Users     user.Store
	Sessions  session.Store
	Passwords *password.Hasher
	// SessionLifetime is how long a session lasts without activity; zero is
	// session.Lifetime.
	SessionLifetime time.Duration
	Log             *slog.Logger
	Now             func() time.Time
}

// Service carries out the rules. It is safe for concurrent use.
type Service struct {
	users     user.Store
	sessions  session.Store
	passwords *password.Hasher
	lifetime  time.Duration // of sessions
	log       *slog.Logger
	now       func() time.Time
}

// New checks the options and returns a Service.
func New(o Options) (*Service, error) {
	if o.Users == nil || o.Sessions == nil || o.Passwords == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("account: Users, Sessions, Passwords, Log or Now is not set")
	}
	return &Service{
		users: o.Users, sessions: o.Sessions, passwords: o.Passwords, lifetime: cmp.Or(o.SessionLifetime, session.Lifetime), log: o.Log, now: o.Now,
	}, nil
}

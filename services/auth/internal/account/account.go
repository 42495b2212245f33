package account

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pforte/pforte/pkg/tracing"
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

// Options are the parts of a Service; all fields are required.
type Options struct {
	Users     user.Store
	Sessions  session.Store
	Passwords *password.Hasher
	Log       *slog.Logger
	Now       func() time.Time
}

// Service carries out the rules. It is safe for concurrent use.
type Service struct {
	users     user.Store
	sessions  session.Store
	passwords *password.Hasher
	log       *slog.Logger
	now       func() time.Time
}

// New checks the options and returns a Service.
func New(o Options) (*Service, error) {
	if o.Users == nil || o.Sessions == nil || o.Passwords == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("account: Users, Sessions, Passwords, Log or Now is not set")
	}
	return &Service{users: o.Users, sessions: o.Sessions, passwords: o.Passwords, log: o.Log, now: o.Now}, nil
}

// maxWait bounds how long a password waits in the queue and is computed.
const maxWait = 4 * time.Second

// verify compares a password with a hash. password.ErrMismatch, password.ErrBusy.
func (s *Service) verify(ctx context.Context, hash, pw string) error {
	return withQueueTimeout(ctx, func(ctx context.Context) error { return s.passwords.Verify(ctx, hash, pw) })
}

// verifyDummy performs an equivalent comparison for an unknown user.
func (s *Service) verifyDummy(ctx context.Context, pw string) error {
	return withQueueTimeout(ctx, func(ctx context.Context) error { return s.passwords.VerifyDummy(ctx, pw) })
}

// hash returns the hash to store for a new password. password.ErrBusy.
func (s *Service) hash(ctx context.Context, pw string) (hash string, err error) {
	err = withQueueTimeout(ctx, func(ctx context.Context) error {
		hash, err = s.passwords.Hash(ctx, pw)
		return err
	})
	return hash, err
}

// withQueueTimeout bounds compute by maxWait and maps its timeout to
// password.ErrBusy.
func withQueueTimeout(ctx context.Context, compute func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	ctx, span := tracing.Step(ctx, "password", "compute")
	err := compute(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = password.ErrBusy
	}
	if errors.Is(err, password.ErrMismatch) {
		span.End("")
	} else {
		span.End(tracing.Failed(err))
	}
	return err
}

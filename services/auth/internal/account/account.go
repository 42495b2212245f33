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

// What the rules refuse, beside the sentinels of user and password.
var (
	// ErrMissing says that a required field is missing or empty.
	ErrMissing = errors.New("a required field is missing")
	// ErrTooLong says that a name or password is longer than a login takes.
	ErrTooLong = errors.New("name or password is too long")
	// ErrInvalidCredentials says that there is no such user, or that the
	// password is not his; nobody is told which.
	ErrInvalidCredentials = errors.New("invalid credentials")
	// ErrWrongPassword says that the current password is not the user's.
	ErrWrongPassword = errors.New("wrong current password")
	// ErrPending says that a change is made, but sessions could not follow yet;
	// they will when their store answers.
	ErrPending = errors.New("done, but the session store does not answer: sessions follow when it does and auth runs")
	// ErrOwnAccount says that somebody wants to delete himself.
	ErrOwnAccount = errors.New("own account")
)

// Options is what a Service is made of; all fields are required.
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
		return nil, errors.New("account: a store, the hasher, the log or the clock is missing")
	}
	return &Service{users: o.Users, sessions: o.Sessions, passwords: o.Passwords, log: o.Log, now: o.Now}, nil
}

// maxWait bounds how long a password waits for its turn to be computed.
const maxWait = 4 * time.Second

// verify compares a password with a hash. password.ErrMismatch,
// password.ErrBusy.
func (s *Service) verify(ctx context.Context, hash, pw string) error {
	return inTurn(ctx, func(ctx context.Context) error { return s.passwords.Verify(ctx, hash, pw) })
}

// verifyDummy does the same work for nobody.
func (s *Service) verifyDummy(ctx context.Context, pw string) error {
	return inTurn(ctx, func(ctx context.Context) error { return s.passwords.VerifyDummy(ctx, pw) })
}

// hash gives the hash to store for a new password. password.ErrBusy.
func (s *Service) hash(ctx context.Context, pw string) (hash string, err error) {
	err = inTurn(ctx, func(ctx context.Context) error {
		hash, err = s.passwords.Hash(ctx, pw)
		return err
	})
	return hash, err
}

// inTurn says of a password whose turn did not come in time what it is: too many
// were waiting.
func inTurn(ctx context.Context, compute func(context.Context) error) error {
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

package session

import (
	"context"
	"errors"
	"time"
)

// What a Store, or the Manager above it, refuses.
var (
	// ErrNotFound says that there is no such live session: never was, ended,
	// revoked or expired. To the Manager's callers: the request is anonymous.
	ErrNotFound = errors.New("no session")
	// ErrFenced says that sessions of the user were revoked or got another role
	// since the fence was asked for. Read the user again.
	ErrFenced = errors.New("the user changed during the login")
)

// Store keeps sessions of all users. Every method is one atomic step and safe
// for concurrent use, by several processes too where the store is shared.
// Lifetimes are counted by the store's clock.
type Store interface {
	// Fence returns a token for Create. It stays valid for at least a minute
	// unless Revoke or SetRole is called for the user.
	Fence(ctx context.Context, userID int64) (string, error)
	// Create keeps s for lifetime, or answers ErrFenced and keeps nothing. The
	// same call again changes nothing. When the user has MaxPerUser sessions, the
	// one that was used longest ago ends.
	Create(ctx context.Context, s Session, fence string, lifetime time.Duration) error
	// Load returns a session and renews it: it now lives for lifetime again, less
	// a second at most (a thousandth, if that is shorter). With a lifetime of zero
	// it is not renewed. ErrNotFound when it is gone; then nothing is written.
	Load(ctx context.Context, ref Ref, lifetime time.Duration) (Session, error)
	// AddCSRFToken gives the session this token if it has none, and returns the
	// one it has. ErrNotFound.
	AddCSRFToken(ctx context.Context, ref Ref, token string) (string, error)
	// Delete ends a session. Again, or unknown, is no error.
	Delete(ctx context.Context, ref Ref) error

	// Revoke ends all sessions of a user but the one with the key keep (which
	// may be empty), takes the fence away, and returns how many were ended.
	// Again is no error. A user with more sessions than MaxPerUser, from before
	// there was a limit, may lose one that a login makes meanwhile.
	Revoke(ctx context.Context, userID int64, keep string) (int, error)
	// SetRole changes the role in all sessions of a user and takes the fence
	// away. Again, or without sessions, is no error.
	SetRole(ctx context.Context, userID int64, role string) error
	// List returns the live sessions of a user, the one used last first.
	List(ctx context.Context, userID int64) ([]Info, error)

	// Sweep forgets what is left of expired sessions, which are not accepted
	// before either, and counts those that live. It may count a session twice
	// when many are made meanwhile.
	Sweep(ctx context.Context) (Swept, error)
}

// Swept is what a sweep found.
type Swept struct {
	Expired int // entries of expired sessions, forgotten now
	Live    int
}

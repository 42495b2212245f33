package session

import (
	"context"
	"errors"
	"time"
)

// Errors of a Store and of the Manager.
var (
	// ErrNotFound: there is no such live session, as it never existed, was ended or
	// revoked, or has expired. From the Manager: the request is anonymous.
	ErrNotFound = errors.New("no session")
	// ErrFenced: the user's sessions were revoked or their role changed since
	// Fence. The caller reads the user again.
	ErrFenced = errors.New("user changed during login")
)

// Store keeps sessions of all users. Every method is one atomic step and safe
// for concurrent use, by several processes too where the store is shared.
// Lifetimes are counted by the store's clock.
type Store interface {
	// Fence returns a token for Create. It stays valid for at least a minute
	// unless Revoke or SetRole is called for the user.
	Fence(ctx context.Context, userID int64) (string, error)
	// Create stores s for lifetime, or returns ErrFenced and stores nothing. It is
	// idempotent. When the user has MaxPerUser sessions, the least recently used
	// one ends.
	Create(ctx context.Context, s Session, fence string, lifetime time.Duration) error
	// Load returns a session and renews it for lifetime, less at most a second (or
	// a thousandth, if that is shorter). With a lifetime of zero it is not renewed.
	// ErrNotFound; then nothing is written.
	Load(ctx context.Context, ref Ref, lifetime time.Duration) (Session, error)
	// AddCSRFToken sets the session's token if it has none, and returns the one it
	// has. ErrNotFound.
	AddCSRFToken(ctx context.Context, ref Ref, token string) (string, error)
	// Delete ends a session. An unknown one is not an error.
	Delete(ctx context.Context, ref Ref) error

	// Revoke ends all sessions of a user except the one with the key keep (which
	// may be empty), removes the fence, and returns how many were ended. A user
	// with more than MaxPerUser sessions, from before there was a limit, may lose
	// one that a login creates meanwhile.
	Revoke(ctx context.Context, userID int64, keep string) (int, error)
	// SetRole changes the role in all sessions of a user and removes the fence.
	SetRole(ctx context.Context, userID int64, role string) error
	// List returns the live sessions of a user, most recently used first.
	List(ctx context.Context, userID int64) ([]Info, error)

	// Sweep deletes what is left of expired sessions, which Load already refuses,
	// and counts the live ones. It may count a session twice when many are created
	// meanwhile.
	Sweep(ctx context.Context) (Swept, error)
}

// Swept is the result of a sweep.
type Swept struct {
	Expired int // entries of expired sessions, deleted now
	Live    int
}

package session

import (
	"context"
	"time"
)

// PendingLifetime is how long a user has for the second step of a login.
const PendingLifetime = 5 * time.Minute

// MaxTries is how many answers a pending login accepts, right or wrong.
const MaxTries = 5

// Pending is a login whose password was right and whose second factor is missing. It is not a Session, has other keys
// and another cookie, and admits to nothing but the second step.
type Pending struct {
	Ref // Key is the SHA-256 of the id in the cookie
	// Fingerprint changes with everything that revokes the user's sessions, such as a new password; the login then
	// starts again.
	Fingerprint string
	// Browser is the hash of the browser's cookie if the user has proved their second factor
	// in it before, else empty.
	Browser string
	// Replaces is the session that the browser came with, which the login ends; zero: none.
	Replaces  Ref
	UserAgent string // shortened
	IP        string
	Device    Device
	Tries     int // answers so far; LoadPending includes the one that it counts
	CreatedAt time.Time
}

// NewPending returns a pending login with a new id, which is for the cookie.
func NewPending(userID int64, userAgent string, now time.Time) (p Pending, id string) {
	id, key := NewSecret()
	return Pending{
		Ref: Ref{UserID: userID, Key: key}, UserAgent: shortened(userAgent),
		CreatedAt: now.UTC().Truncate(time.Second),
	}, id
}

// Pendings keeps pending logins for PendingLifetime. Every method is one atomic step.
type Pendings interface {
	CreatePending(ctx context.Context, p Pending) error
	// LoadPending returns a pending login and counts a try. ErrNotFound, also from
	// the try after MaxTries on.
	LoadPending(ctx context.Context, ref Ref) (Pending, error)
	// PeekPending is LoadPending without counting. ErrNotFound, also when no try is
	// left.
	PeekPending(ctx context.Context, ref Ref) (Pending, error)
	// DeletePending ends a pending login. An unknown one is not an error.
	DeletePending(ctx context.Context, ref Ref) error
	// FinishPending replaces the pending login by the session, which is its user's, in
	// one step, as Store.Create does. ErrNotFound when the pending login has ended,
	// ErrFenced; then nothing is written. It is idempotent.
	FinishPending(ctx context.Context, ref Ref, s Session, fence string, lifetimes Lifetimes) error
}

// CeremonyLifetime is how long a browser has to answer a WebAuthn ceremony.
const CeremonyLifetime = 5 * time.Minute

// Ceremony is a WebAuthn ceremony that was begun: what the answer has to match.
type Ceremony struct {
	Purpose string // what the answer may be used for: "login", "second", "register", "reauth", "join"
	UserID  int64  // 0: unknown before the answer
	Owner   string // key of the session or pending login that began it, hash of the link to join by, or empty
	Data    []byte // opaque to the store
}

// Ceremonies keeps ceremonies for CeremonyLifetime.
type Ceremonies interface {
	// PutCeremony keeps a ceremony and returns its id, which is for the cookie. Of those that have neither a UserID nor
	// an Owner the newest are kept.
	PutCeremony(ctx context.Context, c Ceremony) (id string, err error)
	// TakeCeremony returns a ceremony and forgets it, in one step. ErrNotFound.
	TakeCeremony(ctx context.Context, id string) (Ceremony, error)
}

// Stores is everything that a backend of this package keeps.
type Stores interface {
	Store
	Pendings
	Ceremonies
	HandOvers
}

package user

import (
	"context"
	"errors"
	"time"
)

// What a Store refuses.
var (
	// ErrNotFound says that there is no such user.
	ErrNotFound = errors.New("no such user")
	// ErrUsernameTaken says that a user of that name exists, in this or
	// another letter case.
	ErrUsernameTaken = errors.New("username is taken")
	// ErrIDTaken says that a user of that id exists.
	ErrIDTaken = errors.New("id is taken")
	// ErrLastAdmin says that nobody would be left to administer.
	ErrLastAdmin = errors.New("the last admin must remain")
	// ErrNotAdmin says that the acting user is no admin (any more).
	ErrNotAdmin = errors.New("the acting user is not an admin")
	// ErrChanged says that the password hash is not the one expected: somebody
	// was faster.
	ErrChanged = errors.New("the password has changed meanwhile")
	// ErrNotEmpty says that there are users already.
	ErrNotEmpty = errors.New("there are users already")
)

// Operator is the acting "user" of a command on the machine itself, who needs
// no admin role. No user has this id.
const Operator int64 = 0

// Store keeps users. Every method is one atomic step and safe for concurrent
// use, by several processes too where the store is shared.
//
// Sessions live in another store, so a change that must reach them is recorded
// with it: SetPasswordHash, ResetPassword, EndSessions, SetRole, Delete and
// Import write a Revocation in the same transaction and return it. The caller
// carries it out and then reports RevocationDone; a process that dies in between
// leaves the record, and PendingRevocations hands it to the next one. Those of
// them that revoke sessions also give the user a new SessionStamp, by which the
// sessions are over at once, whatever becomes of their store.
type Store interface {
	// Create adds a user on behalf of the user by, who must be an admin at that
	// instant (ErrNotAdmin), or of the Operator, and returns it with id and
	// creation time. ErrUsernameTaken.
	Create(ctx context.Context, n New, by int64) (User, error)
	// CreateFirst is Create while there is no user at all, else ErrNotEmpty. Of
	// any number of concurrent calls one succeeds.
	CreateFirst(ctx context.Context, n New) (User, error)

	// Import adds users that another application kept, all of them or none. An
	// ID of 0 and a zero CreatedAt are given by the store, as Create gives them;
	// ids that it gives later are higher than every imported one. Sessions under
	// an imported id are some earlier user's and are to be revoked.
	// ErrUsernameTaken and ErrIDTaken, with the name of the user.
	Import(ctx context.Context, users []User) ([]Revocation, error)

	// ByID returns a user or ErrNotFound.
	ByID(ctx context.Context, id int64) (User, error)
	// ByUsername returns the user of exactly this name (case matters) or
	// ErrNotFound; any string may be asked for.
	ByUsername(ctx context.Context, username string) (User, error)
	// List returns all users, by id.
	List(ctx context.Context) ([]User, error)

	// SetPasswordHash replaces the hash if it still is oldHash, else
	// ErrChanged: of two changes that verified the same old password one wins.
	// All sessions but keepSession (which may be empty) are to be revoked.
	// ErrNotFound.
	SetPasswordHash(ctx context.Context, id int64, oldHash, newHash, keepSession string) (Revocation, error)
	// ResetPassword replaces the hash whatever it is; all sessions are to be
	// revoked. ErrNotFound.
	ResetPassword(ctx context.Context, id int64, newHash string) (Revocation, error)
	// EndSessions changes nothing else; all sessions are to be revoked. ErrNotFound.
	EndSessions(ctx context.Context, id int64) (Revocation, error)
	// Rehash replaces the hash by another one of the same password if it still
	// is oldHash, else ErrChanged. Sessions stay. ErrNotFound.
	Rehash(ctx context.Context, id int64, oldHash, newHash string) error

	// SetRole changes the role of a user; live sessions are to take it over.
	// ErrNotFound, ErrLastAdmin. Setting the present role succeeds.
	SetRole(ctx context.Context, id int64, role Role) (Revocation, error)
	// Delete removes a user on behalf of the user by, who must be an admin at
	// that instant (ErrNotAdmin), or of the Operator. All sessions are to be
	// revoked. ErrNotFound, also when deleted before; ErrLastAdmin.
	Delete(ctx context.Context, id, by int64) (Revocation, error)

	// PendingRevocations returns those recorded before the instant and not yet
	// done whose id is higher than after, the oldest first, at most 100.
	PendingRevocations(ctx context.Context, before time.Time, after int64) ([]Revocation, error)
	// RevocationDone forgets a revocation. Again is no error.
	RevocationDone(ctx context.Context, id int64) error
}

// MaxPending bounds what PendingRevocations returns at once.
const MaxPending = 100

// Revocation is a change of a user that the session store has yet to follow.
// Carrying one out again, or late, is safe: at worst somebody logs in again.
type Revocation struct {
	ID     int64
	UserID int64
	Kind   RevocationKind
	// KeepSession is the key of the session that stays (RevokeSessions only);
	// empty: none stays.
	KeepSession string
	// RecordedAt is in UTC, whole seconds.
	RecordedAt time.Time
}

// RevocationKind says what is to be done with the sessions of the user.
type RevocationKind string

const (
	// RevokeSessions ends all sessions but KeepSession.
	RevokeSessions RevocationKind = "sessions"
	// RefreshRole gives all sessions the role that the user has *now*. Which
	// one that is has to be read again, before and after the sessions are
	// changed, until both reads agree: another change may have come between,
	// and whoever writes last must have written the truth.
	RefreshRole RevocationKind = "role"
)

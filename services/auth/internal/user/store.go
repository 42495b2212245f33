package user

import (
	"context"
	"errors"
	"time"
)

// Errors of a Store.
var (
	ErrNotFound = errors.New("no such user")
	// ErrUsernameTaken: a user has that name, in this or another letter case.
	ErrUsernameTaken = errors.New("username is taken")
	// ErrUsernameFormer: a deleted user had that name, in this or another letter case.
	ErrUsernameFormer = errors.New("username was a deleted user's")
	ErrIDTaken        = errors.New("id is taken")
	ErrLastAdmin      = errors.New("the last admin must remain")
	// ErrNotAdmin: the acting user is not, or no longer, an admin.
	ErrNotAdmin = errors.New("the acting user is not an admin")
	// ErrChanged: the password hash is not the expected one, after a concurrent
	// change.
	ErrChanged  = errors.New("password changed meanwhile")
	ErrNotEmpty = errors.New("there are users already")
)

// Operator is the acting "user" of a command on the machine itself, which needs no
// admin role. No user has this id.
const Operator int64 = 0

// Store keeps users. Every method is one atomic step and safe for concurrent use, also
// by several processes. Methods that name a user return ErrNotFound.
//
// Sessions are in another store, so a change that they must follow is recorded with
// it: SetPasswordHash, ResetPassword, EndSessions, Delete and Import write a
// Revocation in the same transaction and return it. The caller carries it out and then
// calls RevocationDone; a record that a process leaves behind is returned by
// PendingRevocations. Changes that revoke sessions also set a new SessionStamp, by
// which the sessions end at once even if their store never follows.
type Store interface {
	// Create adds a user and returns it with id and creation time. by is the acting
	// user, who must be an admin at that instant (ErrNotAdmin), or the Operator.
	// ErrUsernameTaken.
	Create(ctx context.Context, n New, by int64) (User, error)
	// CreateFirst is Create while there is no user at all, else ErrNotEmpty. Of any
	// number of concurrent calls one succeeds.
	CreateFirst(ctx context.Context, n New) (User, error)

	// Import adds users of another application, all of them or none. The store sets
	// an ID of 0 and a zero CreatedAt as Create does; later ids are higher than every
	// imported one. Sessions under an imported id belonged to an earlier user and are
	// revoked. ErrUsernameTaken and ErrIDTaken, with the name of the user.
	Import(ctx context.Context, users []User) ([]Revocation, error)

	ByID(ctx context.Context, id int64) (User, error)
	// ByUsername returns the user of exactly this name (case matters), which may be
	// any string.
	ByUsername(ctx context.Context, username string) (User, error)
	// List returns all users, by id.
	List(ctx context.Context) ([]User, error)

	// SetPasswordHash replaces the hash if it is still oldHash, else ErrChanged: of
	// two changes that verified the same old password one succeeds. All sessions
	// except keepSession (which may be empty) are revoked.
	SetPasswordHash(ctx context.Context, id int64, oldHash, newHash, keepSession string) (Revocation, error)
	// ResetPassword replaces any hash. All sessions are revoked.
	ResetPassword(ctx context.Context, id int64, newHash string) (Revocation, error)
	// EndSessions revokes all sessions and changes nothing else.
	EndSessions(ctx context.Context, id int64) (Revocation, error)
	// Rehash replaces the hash by another one of the same password if it is still
	// oldHash, else ErrChanged. Sessions stay.
	Rehash(ctx context.Context, id int64, oldHash, newHash string) error

	// Change changes fields; by as in Create, or the user themselves, who cannot change
	// the role and groups. ErrNotAdmin, ErrLastAdmin; application.ErrGroupNotFound.
	Change(ctx context.Context, id int64, c Change, by int64) error
	// Member returns a user as admins see them, Members all of them by id.
	Member(ctx context.Context, id int64) (Details, error)
	Members(ctx context.Context) ([]Details, error)
	// AskForReset opens a request for a new password of the user of exactly this name,
	// unless one is open. It ends when a link is created or the password changes.
	AskForReset(ctx context.Context, username string) error

	// CheckFormer returns ErrUsernameFormer for the name of a deleted user.
	CheckFormer(ctx context.Context, username string) error

	// Household returns the household's settings.
	Household(ctx context.Context) (Household, error)

	// SetRole changes the role, also to the current one. ErrLastAdmin.
	SetRole(ctx context.Context, id int64, role Role) error
	// Delete removes a user and keeps the name, which is a former one from now on; by as in Create. All sessions are
	// revoked, and invites for that name are void. ErrLastAdmin.
	Delete(ctx context.Context, id, by int64) (Revocation, error)

	// PendingRevocations returns at most MaxPending that were recorded before the
	// instant, are not done, and have an id over after, by id.
	PendingRevocations(ctx context.Context, before time.Time, after int64) ([]Revocation, error)
	// RevocationDone deletes a revocation. An unknown one is not an error.
	RevocationDone(ctx context.Context, id int64) error
}

// MaxPending bounds what PendingRevocations returns at once.
const MaxPending = 100

// Revocation is the end of a user's sessions that the session store has yet to follow.
// Carrying one out twice, or late, is safe: at worst a user has to log in again.
type Revocation struct {
	ID          int64
	UserID      int64
	KeepSession string    // key of the session that stays, or empty
	RecordedAt  time.Time // UTC, whole seconds
}

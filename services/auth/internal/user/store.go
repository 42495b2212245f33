package user

import (
	"errors"
	"time"
)

// Errors of the stores of users.
var (
	ErrNotFound = errors.New("no such user")
	// ErrUsernameTaken: a user has that name, in this or another letter case; or, where a user or an invite is
	// created, one who is here under another name had it.
	ErrUsernameTaken = errors.New("username is taken")
	// ErrUsernameFormer: a deleted user, or one who is here under another name, had that name, in this or another
	// letter case.
	ErrUsernameFormer = errors.New("username was another user's")
	ErrEmailTaken     = errors.New("another user has the e-mail address")
	ErrIDTaken        = errors.New("id is taken")
	ErrLastAdmin      = errors.New("the last admin must remain")
	// ErrGuestAdmin: the user would be an admin whose account ends. An admin's account has no end,
	// so that there is always an admin.
	ErrGuestAdmin = errors.New("an admin's account has no end")
	// ErrNotAdmin: the acting user is not, or no longer, an admin, or is disabled.
	ErrNotAdmin = errors.New("the acting user is not an admin")
	// ErrChanged: the password hash is not the expected one, after a concurrent change.
	ErrChanged  = errors.New("password changed meanwhile")
	ErrNotEmpty = errors.New("there are users already")
)

// Operator is the acting "user" of a command on the machine itself, which needs no
// admin role. No user has this id.
const Operator int64 = 0

// MaxPending bounds what a store returns of pending revocations at once.
const MaxPending = 100

// Revocation is the end of a user's sessions that the session store has yet to follow.
// Carrying one out twice, or late, is safe: at worst a user has to log in again.
type Revocation struct {
	ID          int64
	UserID      int64
	KeepSession string    // key of the session that stays, or empty
	RecordedAt  time.Time // UTC, whole seconds
}

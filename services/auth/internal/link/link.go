package link

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what a link is for.
type Kind string

// The kinds.
const (
	Invite Kind = "invite" // creates a user
	Reset  Kind = "reset"  // sets a user's password
	Setup  Kind = "setup"  // creates the first admin and names the household
)

// Lifetime returns how long a link of a kind can be used. An invite of a guest ends with their last day if that is
// sooner.
func (k Kind) Lifetime() time.Duration {
	if k == Invite {
		return 7 * 24 * time.Hour
	}
	return time.Hour
}

// Path returns the path and query of a link's page.
func (k Kind) Path(token string) string {
	page := map[Kind]string{Invite: "join", Reset: "reset", Setup: "setup"}[k]
	return "/pforte/" + page + "?t=" + token
}

// Errors of links.
var (
	// ErrInvalid is the error of a token that cannot be used: unknown, used, void, expired, of another kind, or
	// created by a user who is no admin any more.
	ErrInvalid = errors.New("link is invalid or expired")
	// ErrUsed is ErrInvalid of a link that did what it is for, for a user who still exists. Whoever has its token may
	// be told.
	ErrUsed = fmt.Errorf("it was used: %w", ErrInvalid)
	// ErrNotFound: there is no open link of that id.
	ErrNotFound = errors.New("no such link")
)

// Link is a stored link.
type Link struct {
	ID   int64
	Kind Kind
	// UserID and Username are of the user whose password a reset sets, or whom a used link
	// created. The Username of an open invite is the new user's; empty: the person chooses.
	UserID      int64
	Username    string
	Former      bool     // when an invite is created: Username may be one that a deleted user had
	DisplayName string   // of an open invite, a proposal; else the user's
	Role        string   // of the user whom an invite or a set-up creates
	Groups      []string // slugs, sorted, of that user's groups
	CreatorName string   // display name of the admin who created it; empty: the operator, or the admin was deleted
	CreatedAt   time.Time
	ExpiresAt   time.Time
	UsedAt      time.Time // zero: it was not
	EndsAt      time.Time // when the account of the guest whom an invite creates ends; zero: it does not
}

package user

import (
	"cmp"
	"crypto/rand"
	"slices"
	"time"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// Role is what a user may do.
type Role string

// The roles. An Admin lists, creates and deletes users.
const (
	Admin  Role = "admin"
	Member Role = "member"
)

// DefaultAvatarColor is the colour of a user created without one.
const DefaultAvatarColor = "#007AFF"

// New are the fields of a user to create; the store sets the others. The password hash
// is stored as it is.
type New struct {
	Username     string
	DisplayName  string
	PasswordHash string
	AvatarColor  string
	Role         Role
}

// User is a stored user.
type User struct {
	ID int64 // set by the store and never used again, also after a deletion
	New
	CreatedAt time.Time // UTC, whole seconds
	// SessionStamp is the stamp that a session of the user must have. The store sets
	// a new, random one for a new user and whenever all sessions are to end; users of
	// an earlier version have none until then.
	SessionStamp string
	// KeptSession is the key of the session that the last such change kept, whatever
	// its stamp; empty: none.
	KeptSession string
}

// Admits reports whether a session with the stamp and key is the user's and has not
// been revoked. The session store may have lost its revocation.
func (u User) Admits(stamp, key string) bool {
	return stamp == u.SessionStamp || u.KeptSession != "" && key == u.KeptSession
}

// NewSessionStamp returns a random stamp.
func NewSessionStamp() string { return rand.Text() }

// Sort orders users by display name in German collation (umlauts beside their vowels,
// case last), then by id.
func Sort(users []User) {
	collator, buffer := collate.New(language.German), collate.Buffer{}
	keys := make(map[int64]string, len(users))
	for _, u := range users {
		keys[u.ID] = string(collator.KeyFromString(&buffer, u.DisplayName))
		buffer.Reset()
	}
	slices.SortFunc(users, func(a, b User) int {
		return cmp.Or(cmp.Compare(keys[a.ID], keys[b.ID]), cmp.Compare(a.ID, b.ID))
	})
}

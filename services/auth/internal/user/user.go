package user

import (
	"cmp"
	"crypto/rand"
	"slices"
	"time"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// Role says what a user may do.
type Role string

// The roles. An Admin lists, creates and deletes users.
const (
	Admin  Role = "admin"
	Member Role = "member"
)

// DefaultAvatarColor is the colour of a user who was given none.
const DefaultAvatarColor = "#007AFF"

// New is what a user is made of; the store gives the rest. The password hash is
// stored as it is.
type New struct {
	Username     string
	DisplayName  string
	PasswordHash string
	AvatarColor  string
	Role         Role
}

// User is a member of the household.
type User struct {
	// ID is given by the store and never given again, also after a deletion.
	ID int64
	New
	// CreatedAt is in UTC, whole seconds.
	CreatedAt time.Time
	// SessionStamp is what a session of the user must have been made under. The
	// store gives a new, random one to a new user and whenever all sessions are to
	// end; users of an earlier version have none until then.
	SessionStamp string
	// KeptSession is the key of the session that the last such change kept, under
	// whichever stamp it was made; empty: none.
	KeptSession string
}

// Admits reports whether a session that was made under the stamp and has the key
// is one of the user's. The session store may have forgotten that it ended.
func (u User) Admits(stamp, key string) bool {
	return stamp == u.SessionStamp || u.KeptSession != "" && key == u.KeptSession
}

// NewSessionStamp returns a stamp that no user had before.
func NewSessionStamp() string { return rand.Text() }

// Sort orders users by display name as a German reader expects (umlauts beside
// their vowels, case last), then by id.
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

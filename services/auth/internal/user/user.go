package user

import (
	"cmp"
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
}

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

package user

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxID is the highest id that can be imported. Ids are numbers in JSON, which browsers
// represent exactly up to twice this: the other half is for ids set later.
const MaxID = 1 << 52

// Errors of the fields of a Record that a New does not have.
var (
	ErrID        = errors.New("id is not a whole number from 1 to 4503599627370496")
	ErrCreatedAt = errors.New("created_at is neither RFC 3339, nor YYYY-MM-DD HH:MM:SS in UTC, nor Unix time")
)

// Record is a user of another application: unchecked text. A missing field is empty.
type Record struct {
	Where                                                                 string // place in the file: "line 3"
	ID, Username, DisplayName, PasswordHash, AvatarColor, Role, CreatedAt string
}

// ParseID returns the id in a text, 0 for an empty one, else ErrID.
func ParseID(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 || id > MaxID || text[0] == '+' {
		return 0, ErrID
	}
	return id, nil
}

// maxSeconds separates seconds since 1970 from milliseconds: the year 5138, or March
// 1973.
const maxSeconds = 1e11

// timeLayouts are RFC 3339 with or without a fraction of a second, and SQLite's
// CURRENT_TIMESTAMP, which is UTC.
var timeLayouts = []string{time.RFC3339, time.DateTime}

// ParseCreatedAt returns the instant in a text, the zero time for an empty one, else
// ErrCreatedAt.
func ParseCreatedAt(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().Truncate(time.Second), nil
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n <= 0 || n >= maxSeconds*1000:
		return time.Time{}, ErrCreatedAt
	case n >= maxSeconds:
		n /= 1000
	}
	return time.Unix(n, 0).UTC(), nil
}

// ByGivenID returns the users with the ones that have an id first, so that a store that
// sets the other ids knows which are taken.
func ByGivenID(users []User) []User {
	none := func(u User) int {
		if u.ID == 0 {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(users), func(a, b User) int { return cmp.Compare(none(a), none(b)) })
}

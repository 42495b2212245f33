package user

import (
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths in code points (contract section 8).
const (
	MinUsername    = 3
	MaxUsername    = 64
	MaxDisplayName = 128
)

// Errors of the fields of a user.
var (
	ErrUsername           = errors.New("username is not 3 to 64 letters, digits, dots, hyphens or underscores")
	ErrDisplayName        = errors.New("display name is blank or has control characters")
	ErrDisplayNameTooLong = errors.New("display name has more than 128 characters")
	ErrAvatarColor        = errors.New("avatar colour is not #RGB or #RRGGBB")
	ErrRole               = errors.New("role is neither admin nor member")
)

var (
	usernamePattern = regexp.MustCompile(`\A[A-Za-z0-9._-]{3,64}\z`)
	colorPattern    = regexp.MustCompile(`\A#(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})\z`)
)

// CheckUsername returns ErrUsername unless name is 3 to 64 ASCII letters, digits, dots,
// hyphens and underscores.
func CheckUsername(name string) error {
	if !usernamePattern.MatchString(name) {
		return ErrUsername
	}
	return nil
}

// CleanDisplayName returns the name without surrounding white space. ErrDisplayName for
// one without a visible character or with a control character or line break,
// ErrDisplayNameTooLong for one over 128 code points.
func CleanDisplayName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if utf8.RuneCountInString(name) > MaxDisplayName {
		return "", ErrDisplayNameTooLong
	}
	visible := false
	for _, r := range name {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			return "", ErrDisplayName
		}
		visible = visible || unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
	}
	if !visible || !utf8.ValidString(name) {
		return "", ErrDisplayName
	}
	return name, nil
}

// CheckAvatarColor returns ErrAvatarColor unless color is a CSS hex colour.
func CheckAvatarColor(color string) error {
	if !colorPattern.MatchString(color) {
		return ErrAvatarColor
	}
	return nil
}

// ParseRole returns the role of that exact name, else ErrRole.
func ParseRole(name string) (Role, error) {
	switch role := Role(name); role {
	case Admin, Member:
		return role, nil
	default:
		return "", ErrRole
	}
}

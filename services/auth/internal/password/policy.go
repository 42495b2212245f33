package password

import (
	"errors"
	"unicode/utf8"
)

// Lengths of a password in code points (contract section 8).
const (
	MinLength = 8
	MaxLength = 1024
)

// Errors of Check.
var (
	ErrTooShort = errors.New("password has fewer than 8 characters")
	ErrTooLong  = errors.New("password has more than 1024 characters")
)

// Check returns ErrTooShort, ErrTooLong or nil for a password to set.
func Check(password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n < MinLength:
		return ErrTooShort
	case n > MaxLength:
		return ErrTooLong
	default:
		return nil
	}
}

package token

import (
	"errors"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

const (
	// Prefix is how every token begins, so that it is told from other credentials.
	Prefix = "pft_"
	shown  = 8
)

// MaxPerUser is how many tokens a user may have, revoked and expired ones that were not
// removed among them.
const MaxPerUser = 50

// KeepEnded is how long a token is kept after it was revoked or expired, unless it is
// removed before, so that its user sees what became of it.
const KeepEnded = 30 * 24 * time.Hour

// Errors of tokens.
var (
	// ErrInvalid is the one error of a token that cannot be used: unknown, revoked or expired, of another user than the
	// one named with it, or of one whose account is closed.
	ErrInvalid  = errors.New("app token is invalid")
	ErrNotFound = errors.New("no such app token")
	// ErrActive: the token to remove has not ended yet.
	ErrActive = errors.New("app token is still valid")
	ErrScope  = errors.New("app token needs at least one application that accepts tokens and that its user may use")
	ErrExpiry = errors.New("app token would expire in the past")
	// ErrTooMany: the user has MaxPerUser tokens.
	ErrTooMany = errors.New("too many app tokens")
)

// Token is a stored token.
type Token struct {
	ID       int64
	UserID   int64
	Username string
	Name     string
	Shown    string // the token's first characters
	// Applications are the slugs of those that it opens, sorted. It may have none left.
	Applications []string
	ReadOnly     bool
	CreatedBy    int64 // id of the user, or of an admin; 0: the operator
	CreatedAt    time.Time
	ExpiresAt    time.Time // zero: never
	RevokedAt    time.Time // zero: not
	LastUsedAt   time.Time // exact to an hour; zero: never
}

// Valid reports whether the token is neither revoked nor expired at an instant.
func (t Token) Valid(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// New returns a random token.
func New() string {
	return Prefix + secrets.New()
}

// Is reports whether a text has the form of a token.
func Is(s string) bool {
	secret, ok := strings.CutPrefix(s, Prefix)
	return ok && secrets.Is(secret)
}

// Shown returns what may be shown of a token.
func Shown(token string) string { return token[:min(len(token), shown)] }

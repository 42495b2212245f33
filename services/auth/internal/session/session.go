package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"
)

// Lifetime is how long a session and its cookies live without activity
// (contract section 2).
const Lifetime = 7 * 24 * time.Hour

// MaxPerUser is how many sessions a user may have. One more ends the one that was
// used longest ago.
const MaxPerUser = 100

// SweepInterval is how often a process calls Store.Sweep (contract section 8).
const SweepInterval = 15 * time.Minute

// Ref names a session in a Store. It can not be used as a cookie, so it may be
// shown to an operator and recorded.
type Ref struct {
	UserID int64
	// Key is the SHA-256 of the session's id, 64 hex characters.
	Key string
}

// Session is what is remembered of a login.
type Session struct {
	Ref
	// Username is the user's, which never changes.
	Username string
	// Role is the user's, kept up to date by Store.SetRole.
	Role string
	// Stamp is the user's session stamp at the login (user.User.Admits).
	Stamp string
	// CSRFToken is 64 hex characters, or empty in a session made without.
	CSRFToken string
	// UserAgent is what the browser called itself at login, shortened.
	UserAgent string
	// CreatedAt is when the login was, UTC in whole seconds.
	CreatedAt time.Time
}

// ValidCSRFToken compares a token with the session's in constant time. A
// session without token has no valid one.
func (s Session) ValidCSRFToken(token string) bool {
	return s.CSRFToken != "" && subtle.ConstantTimeCompare([]byte(token), []byte(s.CSRFToken)) == 1
}

// Info is a live session as an operator sees it.
type Info struct {
	Session
	// ExpiresAt is when the session ends without further activity.
	ExpiresAt time.Time
}

// idBytes is the length of a session id: 256 bits cannot be guessed.
const idBytes = 32

// maxUserAgent is how many bytes of a User-Agent are kept.
const maxUserAgent = 200

// New returns a session of a user with a new id and a new CSRF token. The id is
// for the session cookie; a Store holds only its hash.
func New(userID int64, userAgent string, now time.Time) (s Session, id string) {
	id = newID()
	return Session{
		Ref: Ref{UserID: userID, Key: keyOf(id)}, CSRFToken: NewCSRFToken(),
		UserAgent: strings.ToValidUTF8(userAgent[:min(len(userAgent), maxUserAgent)], ""), CreatedAt: now.UTC().Truncate(time.Second),
	}, id
}

// newID returns a random id, base64url.
func newID() string {
	b := make([]byte, idBytes)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// keyOf is how a store calls the session of an id, so that who reads the store
// cannot use what he finds.
func keyOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// NewCSRFToken returns 64 random hex characters.
func NewCSRFToken() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

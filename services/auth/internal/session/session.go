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

// Lifetime of a session and its cookies without activity (contract section 2).
const Lifetime = 7 * 24 * time.Hour

// MaxPerUser is how many sessions a user may have. Another login ends the least
// recently used one.
const MaxPerUser = 100

// SweepInterval is how often a process calls Store.Sweep (contract section 8).
const SweepInterval = 15 * time.Minute

// Ref identifies a session in a Store. It is not a credential: it may be shown to an
// operator and recorded.
type Ref struct {
	UserID int64
	// Key is the SHA-256 of the session's id, 64 hex characters.
	Key string
}

// Session is the stored state of a login.
type Session struct {
	Ref
	Username  string    // the user's, which never changes
	Role      string    // the user's, kept up to date by Store.SetRole
	Stamp     string    // the user's session stamp at the login (user.User.Admits)
	CSRFToken string    // 64 hex characters, or empty in a session created without
	UserAgent string    // of the login, shortened
	CreatedAt time.Time // of the login, UTC in whole seconds
}

// ValidCSRFToken reports whether a token is the session's, in constant time. A
// session without a token has no valid one.
func (s Session) ValidCSRFToken(token string) bool {
	return s.CSRFToken != "" && subtle.ConstantTimeCompare([]byte(token), []byte(s.CSRFToken)) == 1
}

// Info is a live session with its expiry.
type Info struct {
	Session
	ExpiresAt time.Time // without further activity
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

// keyOf returns the storage key of a session id: its SHA-256, so that the store's
// content does not yield a cookie.
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

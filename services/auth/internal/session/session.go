package session

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// Lifetime is how long a session on AnyDevice and its cookies last without activity unless
// SESSION_LIFETIME is set (AUTH-2.5).
const Lifetime = 7 * 24 * time.Hour

// MaxPerUser is how many sessions a user may have. Another login ends the least
// recently used one.
const MaxPerUser = 100

// SweepInterval is how often a process calls Store.Sweep (AUTH-2.8).
const SweepInterval = 15 * time.Minute

// Ref identifies a session or a pending login in a store. It is not a credential: it may be shown and recorded.
type Ref struct {
	UserID int64
	// Key is the SHA-256 of its id, 64 hex characters.
	Key string
}

// Session is the stored state of a login.
type Session struct {
	Ref
	Username  string    // the user's at AuthAt; their row has the current one
	Role      string    // the user's at AuthAt; their row has the current one
	Stamp     string    // the user's session stamp at AuthAt (user.User.Admits)
	CSRFToken string    // 64 hex characters, or empty in a session created without
	UserAgent string    // of the login, shortened
	CreatedAt time.Time // of the login, UTC in whole seconds

	// Factor is how the user proved who they are, last; Password in sessions of an earlier version.
	Factor Factor
	// AuthAt is when the user proved that, UTC in whole seconds; CreatedAt in sessions of an
	// earlier version.
	AuthAt time.Time
	IP     string // address of the client at the login; empty in sessions of an earlier version
	// Login is the key that the session had at the login. A session that replaces it when the user proves again who
	// they are has another key, and the same login. Sessions of an earlier version have their key.
	Login  string
	Device Device // as the user said at the login
}

// Factor is a way to authenticate.
type Factor string

// The factors. All but Password are two factors.
const (
	Password             Factor = "pwd"
	PasswordWithTOTP     Factor = "pwd+totp"
	PasswordWithRecovery Factor = "pwd+recovery"
	PasswordWithPasskey  Factor = "pwd+passkey"
	Passkey              Factor = "passkey" // with user verification
)

// Second reports whether f is more than a password.
func (f Factor) Second() bool { return f != "" && f != Password }

// ACR returns the authentication context of a login with f, as applications are told it: "pwd", "mfa", or "phr" where
// a passkey was used, which resists phishing (OpenID Connect EAP ACR Values 1.0).
func (f Factor) ACR() string {
	switch f {
	case PasswordWithTOTP, PasswordWithRecovery:
		return "mfa"
	case PasswordWithPasskey, Passkey:
		return "phr"
	default:
		return "pwd"
	}
}

// AMR returns the methods of f, by their names in RFC 8176.
func (f Factor) AMR() []string {
	switch f {
	case PasswordWithTOTP:
		return []string{"pwd", "otp", "mfa"}
	case PasswordWithRecovery:
		return []string{"pwd", "kba", "mfa"}
	case PasswordWithPasskey:
		return []string{"pwd", "swk", "mfa"}
	case Passkey:
		return []string{"swk", "user", "mfa"}
	default:
		return []string{"pwd"}
	}
}

// clockSlack is how far ahead of the clock a proof may be: the clocks of replicas differ.
const clockSlack = time.Minute

// ProvedSince reports, at the instant now, whether the user has proved who they are at or after another. A proof of the
// future, by more than clockSlack, does not count: it was made while a clock was ahead, and would count for too long.
func (s Session) ProvedSince(at, now time.Time) bool {
	return !s.AuthAt.Before(at) && !s.AuthAt.After(now.Add(clockSlack))
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
	// LastUsedAt is when the session was last renewed. A Store leaves it zero, as it
	// follows from ExpiresAt and the lifetime.
	LastUsedAt time.Time
}

// maxUserAgent is how many bytes of a User-Agent are kept.
const maxUserAgent = 200

// New returns a session of a user with a new id and a new CSRF token. The id is
// for the session cookie; a Store holds only its hash.
func New(userID int64, userAgent string, now time.Time) (s Session, id string) {
	id, key := NewSecret()
	return Session{
		Ref: Ref{UserID: userID, Key: key}, Login: key, CSRFToken: NewCSRFToken(),
		UserAgent: shortened(userAgent), CreatedAt: now.UTC().Truncate(time.Second),
		Factor: Password, AuthAt: now.UTC().Truncate(time.Second),
	}, id
}

// Next returns the session that replaces s when its user proves again who they are: with a new id and CSRF token, the
// factor and AuthAt of that proof, and otherwise as s. It is not stored yet.
func (s Session) Next(factor Factor, now time.Time) (next Session, id string) {
	next = s
	id, next.Key = NewSecret()
	next.CSRFToken, next.Factor, next.AuthAt = NewCSRFToken(), factor, now.UTC().Truncate(time.Second)
	return next, id
}

func shortened(userAgent string) string {
	return strings.ToValidUTF8(userAgent[:min(len(userAgent), maxUserAgent)], "")
}

// NewSecret returns a random id, code or other secret, and its HashOf.
func NewSecret() (secret, hash string) {
	secret = secrets.New()
	return secret, HashOf(secret)
}

// HashOf returns what a store has of a secret, such as a session id: its SHA-256, hexadecimal, so that the store's
// content does not yield a cookie.
func HashOf(secret string) string { return secrets.Hash(secret) }

// NewCSRFToken returns 64 random hex characters.
func NewCSRFToken() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// Errors of the stores and of the Manager.
var (
	// ErrNotFound: there is no such live session, pending login, ceremony or hand-over, or no cookie of one. From
	// Manager.Load: the request is anonymous.
	ErrNotFound = errors.New("no session")
	// ErrFenced: the user's sessions were revoked since Fence, or the fence has expired.
	ErrFenced = errors.New("user changed during login")
)

// Store keeps sessions of all users. Every method but Sweep, and Revoke of a user with more than MaxPerUser sessions,
// is one atomic step. All are safe for concurrent use, by several processes too where the store is shared. Lifetimes
// are counted by the store's clock.
type Store interface {
	// Fence returns a token for Create, Rotate and FinishPending. It stays valid for at least a minute unless Revoke is
	// called for the user.
	Fence(ctx context.Context, userID int64) (string, error)
	// Create stores s for the lifetime of its device, or returns ErrFenced and stores nothing. It is
	// idempotent. When the user has MaxPerUser sessions, the least recently used
	// one ends, as expiries and lifetimes tell.
	Create(ctx context.Context, s Session, fence string, lifetimes Lifetimes) error
	// Load returns a session and renews it for the lifetime of its device, less at most a
	// second (or a thousandth, if that is shorter); one that would last longer is shortened.
	// With zero Lifetimes it is left as it is.
	// ErrNotFound; then nothing is written.
	Load(ctx context.Context, ref Ref, lifetimes Lifetimes) (Session, error)
	// LoadHost is Load for a session that has the host of an application open
	// (HandOvers.OpenHost) by the secret of the hash. ErrNotFound.
	LoadHost(ctx context.Context, ref Ref, host, secretHash string, lifetimes Lifetimes) (Session, error)
	// Rotate stores next, a session of the same user, and ends old, in one step.
	// ErrNotFound when old has ended; ErrFenced as Create. Then nothing is written. It
	// is idempotent.
	Rotate(ctx context.Context, old Ref, next Session, fence string, lifetimes Lifetimes) error
	// AddCSRFToken sets the session's token if it has none, and returns the one it
	// has. ErrNotFound.
	AddCSRFToken(ctx context.Context, ref Ref, token string) (string, error)
	// Delete ends a session. An unknown one is not an error.
	Delete(ctx context.Context, ref Ref) error

	// Revoke ends all sessions of a user except the one with the key keep (which
	// may be empty), removes the fence, and returns how many were ended. A user
	// with more than MaxPerUser sessions, from before there was a limit, may lose
	// one that a login creates meanwhile.
	Revoke(ctx context.Context, userID int64, keep string) (int, error)
	// List returns the live sessions of a user; of those with one lifetime the most recently
	// used first.
	List(ctx context.Context, userID int64) ([]Info, error)

	// Sweep deletes what is left of expired sessions, which Load already refuses,
	// and counts the live ones. It may count a session twice when many are created
	// meanwhile.
	Sweep(ctx context.Context) (Swept, error)
}

// Swept is the result of a sweep.
type Swept struct {
	Expired int // entries of expired sessions, deleted now
	Live    int
}

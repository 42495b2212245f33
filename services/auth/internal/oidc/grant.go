package oidc

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Lifetimes.
const (
	CodeLifetime    = time.Minute
	AccessLifetime  = time.Hour
	IDTokenLifetime = time.Hour
	RefreshIdle     = 30 * 24 * time.Hour  // without use
	RefreshLifetime = 365 * 24 * time.Hour // since the login
	RefreshGrace    = 2 * time.Minute      // in which a replaced token, or a device's code, is answered again
	KeepEnded       = 30 * 24 * time.Hour  // of a grant, after its end
	KeepEndedLogins = time.Hour            // after their end
	RequestLifetime = 15 * time.Minute     // of a kept request
	PushedLifetime  = 90 * time.Second     // of one that the client has pushed
)

// Limits of live grants. Another one ends the oldest.
const (
	MaxGrantsPerUser  = 500
	MaxGrantsPerLogin = 10 // of an application and a login
)

// Grant is a user's login at an application.
type Grant struct {
	// ID is 128 random bits, base64url. It is the claim sid, and no secret.
	ID            string
	ApplicationID int64
	UserID        int64
	Login         string // key of the session that the login made (session.Session.Login)
	Stamp         string // of the user's row when the code was given
	Scopes        []string
	// Offline reports that the grant outlives the login, and has refresh tokens.
	Offline    bool
	AuthTime   time.Time
	Factor     session.Factor
	Generation int64 // of the refresh token
	RotatedAt  time.Time
	CreatedAt  time.Time
	LastUsedAt time.Time
}

// NewGrantID returns a random ID. It begins with no hyphen, which a command would take for a flag.
func NewGrantID() string {
	b := make([]byte, 16)
	for {
		_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
		if id := base64.RawURLEncoding.EncodeToString(b); id[0] != '-' {
			return id
		}
	}
}

// Why a grant ended.
const (
	EndedByUser   = "disconnected"
	EndedByClient = "revoked"
	EndedByLogout = "logout"
	EndedByStamp  = "password"
	EndedByRule   = "rule"
	EndedCode     = "code_reused"
	EndedRefresh  = "refresh_reused"
	EndedLimit    = "too_many"
	EndedRemoved  = "application_removed"
	EndedByAge    = "expired"
	EndedChanged  = "client_changed" // public or confidential, or another id or issuer
)

// Person is a user as an application may come to know them, as stored now.
type Person struct {
	User    user.User // only ID, Username, DisplayName, Role and SessionStamp are set
	Groups  []string  // slugs, sorted
	Subject string    // by which all applications know them
	Email   user.Email
}

// Held is a live grant with its user and client.
type Held struct {
	Grant
	Person Person
	Client Client // without Secrets, Redirects and AfterLogout
}

// Connection is a live grant as its user and admins see it.
type Connection struct {
	Grant
	Slug, Name string // of the application
	Username   string
}

// Errors of grants.
var (
	ErrNotAdmitted  = errors.New("the user or the application's rule does not admit it")
	ErrFactor       = errors.New("the application demands a second factor")
	ErrGrantEnded   = errors.New("the login at the application has ended")
	ErrNoConnection = errors.New("no such connection")
)

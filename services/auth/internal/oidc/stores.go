package oidc

import (
	"context"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// Clients keeps clients. What changes something is one transaction with its audit row, on behalf of an admin
// (user.ErrNotAdmin) or user.Operator.
type Clients interface {
	// Clients returns all, by slug.
	Clients(ctx context.Context) ([]Client, error)
	// CreateClient makes an application a client, with its secret unless it is public, and writes the issuer down with
	// the first. ErrIsClient, ErrIDTaken, application.ErrNotFound.
	CreateClient(ctx context.Context, c Client, issuer string, by int64) error
	// ChangeClient stores what change makes of a client, which is called in the transaction and possibly several
	// times; its error is returned. Grants end where the client becomes public or confidential. ErrNoClient,
	// ErrIDTaken.
	ChangeClient(ctx context.Context, slug string, change func(*Client) error, by int64) error
	// RemoveClient ends its grants, and removes it. ErrNoClient.
	RemoveClient(ctx context.Context, slug string, by int64) error
	// AddSecret adds a secret. ErrNoClient, ErrManySecret, ErrPublic.
	AddSecret(ctx context.Context, slug string, s Secret, by int64) error
	// RemoveSecret removes one. ErrNoClient, ErrNoSecret.
	RemoveSecret(ctx context.Context, slug string, id, by int64) error
	// SecretUsed records when a secret was last used, once an hour.
	SecretUsed(ctx context.Context, id int64) error
	// RequirePKCE makes PKCE a client's duty.
	RequirePKCE(ctx context.Context, applicationID int64) error
	// Issuer returns the one that is written down; empty: none yet.
	Issuer(ctx context.Context) (string, error)
	// SetIssuer writes another one down.
	SetIssuer(ctx context.Context, issuer string, by int64) error
}

// Keys keeps the keys that sign, sealed.
type Keys interface {
	// Keys returns all, newest state first.
	Keys(ctx context.Context) ([]StoredKey, error)
	// ChangeKeys stores what change makes of the keys, which is called in the transaction and possibly several times,
	// while no other transaction changes them. rotates has it recorded in the audit.
	ChangeKeys(ctx context.Context, rotates bool, change func([]StoredKey) ([]StoredKey, error)) error
}

// Grants keeps grants.
type Grants interface {
	// Person returns a user whose account is open, with a subject, and whether an application demands a second factor.
	// ErrNotAdmitted with the person where the application's rule says no; user.ErrNotFound.
	Person(ctx context.Context, userID, applicationID int64) (p Person, secondFactor bool, err error)
	// CreateGrant stores a grant in one step with the look at what it rests on: the stamp and the state of the user's
	// row, the rule, and that the login has not ended. With too many live ones the oldest end. first reports whether it
	// is the user's first login at the application. ErrNotAdmitted, also where there is or was a grant with its ID.
	CreateGrant(ctx context.Context, g Grant) (held Held, first bool, err error)
	// Held returns a live grant whose user and rule still admit it, in one read. ErrGrantEnded.
	Held(ctx context.Context, id string) (Held, error)
	// Rotate makes the refresh token of a generation the one before, where it is the current one. rotated reports
	// whether it was. It renews LastUsedAt.
	Rotate(ctx context.Context, id string, generation int64) (rotated bool, err error)
	// Used renews LastUsedAt, once an hour.
	Used(ctx context.Context, id string) error
	// EndGrant ends a grant for a reason, and queues its logout. ended reports whether it was live.
	EndGrant(ctx context.Context, id, reason string) (ended bool, err error)
	// Connections returns the live grants of a user, or with 0 of all, newest first.
	Connections(ctx context.Context, userID int64) ([]Connection, error)
	// EndConnection is EndGrant at the wish of its user, an admin or user.Operator. ErrNoConnection, also to others.
	EndConnection(ctx context.Context, id string, by int64) error
	// SweepGrants deletes the grants that ended before KeepEnded or were not used for RefreshIdle, and the ended logins
	// of before KeepEndedLogins.
	SweepGrants(ctx context.Context) error
}

// Code is what an authorization code stands for.
type Code struct {
	ClientID      string
	ApplicationID int64
	Redirect      string
	Scopes        []string
	Nonce         string
	Challenge     string // of PKCE, S256; empty: none
	Grant         string // ID of the grant that it will become
	Offline       bool
	UserID        int64
	Login, Stamp  string
	AuthTime      int64
	Factor        session.Factor
	ExpiresAt     int64 // Unix seconds
}

// Access is what an access token stands for.
type Access struct {
	Grant  string
	Scopes []string // a part of the grant's
	// IssuedAt is in Unix seconds.
	IssuedAt int64
}

// Kept is an authorization request that is kept while its user logs in.
type Kept struct {
	Query string // the request's parameters
	At    int64  // when it came, Unix seconds
	// ClientID is of a request that the client has pushed; empty: a browser sent it.
	ClientID string
}

// Refusal is what an admin sees of a request that was refused.
type Refusal struct {
	At      time.Time
	Reason  string // a word
	Address string // that is not entered
	IP      string
}

// ShortLived keeps what lasts for minutes. Every method is one atomic step.
type ShortLived interface {
	// PutCode keeps a code by its hash, until it expires.
	PutCode(ctx context.Context, hash string, c Code) error
	// TakeCode returns a code once. ErrCodeUsed; reused is the grant that a code without PKCE became more than five
	// seconds ago, within ten minutes.
	TakeCode(ctx context.Context, hash string) (c Code, reused string, err error)
	// PutAccess keeps an access token by its hash, for AccessLifetime.
	PutAccess(ctx context.Context, hash string, a Access) error
	// Access returns one. ErrNoAccess.
	Access(ctx context.Context, hash string) (Access, error)
	// DropAccess forgets one.
	DropAccess(ctx context.Context, hash string) error
	// Keep keeps a request by the hash of its handle.
	Keep(ctx context.Context, hash string, k Kept, life time.Duration) error
	// Kept returns one. ErrRequestGone.
	Kept(ctx context.Context, hash string) (Kept, error)
	// TakeKept returns one and forgets it. ErrRequestGone.
	TakeKept(ctx context.Context, hash string) (Kept, error)
	// PutDevice keeps a device by the hash of its user's code, until it expires. free reports whether no other device
	// has that code.
	PutDevice(ctx context.Context, hash string, d Device) (free bool, err error)
	// Device returns one whose user has not answered. ErrNoDevice.
	Device(ctx context.Context, hash string) (Device, error)
	// ProveDevice notes the login whose user has proved for one who they are, in place of another. ErrNoDevice.
	ProveDevice(ctx context.Context, hash, login string) error
	// AnswerDevice keeps the answer of its user, once: what stands for their login; nil: they refuse. ErrNoDevice.
	AnswerDevice(ctx context.Context, hash string, allowed *Code) error
	// PollDevice returns what its user has allowed to the client whose device proves itself by a secret of this hash:
	// once in an interval, because the answer may be lost. ErrNoDevice, ErrCodeClient, ErrDenied, ErrPending;
	// ErrSlowDown for a question before the interval is over, which grows by it.
	PollDevice(ctx context.Context, hash, secret, clientID string, now time.Time) (Code, error)
	// GiveDeviceBack keeps what was returned by PollDevice again.
	GiveDeviceBack(ctx context.Context, hash string, c Code) error
	// Wait notes that an application was led to at an instant, and may ask for tokens; Asked that it has; Waiting
	// returns since when it has not. Zero: it has, or was not led to for an hour.
	Wait(ctx context.Context, applicationID int64, at time.Time) error
	Asked(ctx context.Context, applicationID int64) error
	Waiting(ctx context.Context, applicationID int64) (time.Time, error)
	// Refuse notes a refusal of an application: the last 20, for a day.
	Refuse(ctx context.Context, applicationID int64, r Refusal) error
	// Refusals returns them, newest first.
	Refusals(ctx context.Context, applicationID int64) ([]Refusal, error)
}

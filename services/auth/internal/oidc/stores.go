package oidc

import (
	"context"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// Clients keeps clients. A method with by is one transaction with its audit row, on behalf of the session of an admin
// (user.ErrNotAdmin) that their row admits at that instant (session.ErrNotFound), or user.Operator's, the zero Session.
type Clients interface {
	// Clients returns all clients, sorted by slug.
	Clients(ctx context.Context) ([]Client, error)
	// CreateClient makes an application a client, with its secret unless it is public, and writes the issuer down with
	// the first. ErrIsClient, ErrIDTaken, application.ErrNotFound.
	CreateClient(ctx context.Context, c Client, issuer string, by session.Session) error
	// ChangeClient stores what change makes of a client, which is called in the transaction and possibly several times;
	// its error is returned. Grants end where the client becomes public or confidential or gets another id, and its
	// secrets where it becomes public. ErrNoClient, ErrIDTaken.
	ChangeClient(ctx context.Context, slug string, change func(*Client) error, by session.Session) error
	// RemoveClient ends the grants of a client, and removes it. ErrNoClient.
	RemoveClient(ctx context.Context, slug string, by session.Session) error
	// AddSecret adds a secret of a client. ErrNoClient, ErrManySecret, ErrPublic.
	AddSecret(ctx context.Context, slug string, s Secret, by session.Session) error
	// RemoveSecret removes a secret of a client. ErrNoClient, ErrNoSecret.
	RemoveSecret(ctx context.Context, slug string, id int64, by session.Session) error
	// SecretUsed records when a secret was last used, at most once an hour.
	SecretUsed(ctx context.Context, id int64) error
	// RequirePKCE makes PKCE a client's duty.
	RequirePKCE(ctx context.Context, applicationID int64) error
	// Issuer returns the issuer that is written down; empty: none yet.
	Issuer(ctx context.Context) (string, error)
	// SetIssuer replaces the issuer that is written down, if one is, and ends all grants: a login stays that of one
	// issuer (OpenID Connect Core, section 12.2).
	SetIssuer(ctx context.Context, issuer string, by session.Session) error
}

// Keys keeps the keys that sign, sealed.
type Keys interface {
	// Keys returns all keys, newest state first.
	Keys(ctx context.Context) ([]StoredKey, error)
	// ChangeKeys stores what change makes of the keys, which is called in the transaction and possibly several times,
	// while no other transaction changes them. rotates has it recorded in the audit.
	ChangeKeys(ctx context.Context, rotates bool, change func([]StoredKey) ([]StoredKey, error)) error
}

// Grants keeps grants.
type Grants interface {
	// Person returns a user whose account is open, with a subject, and whether an application demands a second
	// factor. ErrNotAdmitted with the person, perhaps without a subject, where the application's rule says no;
	// user.ErrNotFound, also of a closed account, and where there is no such application.
	Person(ctx context.Context, userID, applicationID int64) (p Person, secondFactor bool, err error)
	// CreateGrant checks what a grant rests on and stores it, in one step: the stamp and the state of the user's row,
	// the rule and its second factor, and that the login has not ended. With too many live ones the oldest end. A
	// user's first login at the application is recorded. ErrNotAdmitted, also where there is or was a grant of its ID.
	CreateGrant(ctx context.Context, g Grant) (Held, error)
	// Held returns a live grant whose user and rule still admit it, in one read. ErrGrantEnded.
	Held(ctx context.Context, id string) (Held, error)
	// Rotate replaces the current refresh token of a grant, which becomes the previous one, and renews LastUsedAt.
	// rotated is false if the grant has ended or generation is not the current one.
	Rotate(ctx context.Context, id string, generation int64) (rotated bool, err error)
	// Used renews LastUsedAt, at most once an hour.
	Used(ctx context.Context, id string) error
	// EndGrant ends a grant for a reason and, unless that is EndedByClient, queues a logout where its client has a
	// LogoutURI. It does nothing for one that has ended, or is unknown.
	EndGrant(ctx context.Context, id, reason string) error
	// Connections returns at most 1000 live grants of a user at an application, newest first. 0 stands for all users,
	// or all applications.
	Connections(ctx context.Context, userID, applicationID int64) ([]Connection, error)
	// EndConnection is EndGrant at the wish of its user, an admin or user.Operator. ErrNoConnection, also where by
	// is none of them.
	EndConnection(ctx context.Context, id string, by int64) error
	// SweepGrants deletes the grants that ended, or came to the end of RefreshIdle or RefreshLifetime, more than
	// KeepEnded ago, and the logins that ended more than KeepEndedLogins ago. Of the grants that have not ended it
	// queues a logout, as EndGrant does.
	SweepGrants(ctx context.Context) error
}

// Code is what an authorization code, or a device that its user has allowed, stands for.
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
	AuthTime      int64 // Unix seconds
	Factor        session.Factor
}

// Access is what an access token stands for.
type Access struct {
	Grant  string
	Scopes []string // all or some of the grant's
	// IssuedAt is in Unix seconds.
	IssuedAt int64
}

// Kept is an authorization request that is kept, for RequestLifetime or PushedLifetime.
type Kept struct {
	Query string // the request's parameters
	At    int64  // when it came, Unix seconds
	// Session is the key of the session with which it came; empty: none, or it came by POST, without cookies.
	Session string `json:",omitempty"`
	// ClientID is the client that has pushed the request; empty: a browser sent it.
	ClientID string
}

// Refusal is what an admin sees of a request that was refused.
type Refusal struct {
	At      time.Time
	Reason  string // the text of an error, or a parameter's name
	Address string // redirect_uri, where that is why: it is not one of the client's; else empty
	IP      string
}

// ShortLived keeps what lasts for an hour at most, and refusals for a day. Every method but Refuse is one atomic
// step.
type ShortLived interface {
	// PutCode keeps a code by its hash for CodeLifetime.
	PutCode(ctx context.Context, hash string, c Code) error
	// TakeCode returns a code once. ErrCodeUsed; reused is then the ID of the grant of a code without PKCE that was
	// taken more than five seconds and less than ten minutes ago; empty: none.
	TakeCode(ctx context.Context, hash string) (c Code, reused string, err error)
	// PutAccess keeps an access token of a user by its hash, for AccessLifetime. Of each user's the newest are kept.
	PutAccess(ctx context.Context, hash string, userID int64, a Access) error
	// Access returns an access token by its hash. ErrNoAccess.
	Access(ctx context.Context, hash string) (Access, error)
	// DropAccess forgets an access token.
	DropAccess(ctx context.Context, hash string) error
	// Keep keeps a request by the hash of its handle. Of those of strangers, and of all others, the newest are kept.
	Keep(ctx context.Context, hash string, k Kept, life time.Duration, stranger bool) error
	// Kept returns a kept request. ErrRequestGone.
	Kept(ctx context.Context, hash string) (Kept, error)
	// TakeKept returns a kept request and forgets it. ErrRequestGone.
	TakeKept(ctx context.Context, hash string) (Kept, error)
	// PutDevice keeps a device by the hash of its user's code for DeviceLifetime. Unless free, another device may have
	// that code. Of those of strangers the newest are kept.
	PutDevice(ctx context.Context, hash string, d Device, stranger bool) (free bool, err error)
	// Device returns a device whose user has not answered. ErrNoDevice.
	Device(ctx context.Context, hash string) (Device, error)
	// ProveDevice notes the login whose user has proved who they are for a device, in place of an earlier one.
	// ErrNoDevice.
	ProveDevice(ctx context.Context, hash, login string) error
	// AnswerDevice keeps the answer of a device's user, once: what stands for their login; nil: they refuse.
	// ErrNoDevice.
	AnswerDevice(ctx context.Context, hash string, allowed *Code) error
	// PollDevice returns what the user has allowed to the client whose device proves itself by the secret of this hash:
	// first at once and then again after each interval, because the answer may be lost. ErrNoDevice, also for what was
	// returned less than an interval ago; ErrCodeClient, ErrDenied, ErrPending; ErrSlowDown instead of ErrPending
	// before the interval is over, which makes the interval longer.
	PollDevice(ctx context.Context, hash, secret, clientID string, now time.Time) (Code, error)
	// GiveDeviceBack keeps again what PollDevice has returned. ErrNoDevice if it has expired.
	GiveDeviceBack(ctx context.Context, hash string, c Code) error
	// Wait notes for an hour, unless that is noted already, that a user was led back to an application at an instant.
	// Asked forgets that, as the application has asked for tokens. Waiting returns the instant; zero: none is noted.
	Wait(ctx context.Context, applicationID int64, at time.Time) error
	Asked(ctx context.Context, applicationID int64) error
	Waiting(ctx context.Context, applicationID int64) (time.Time, error)
	// Refuse notes a refusal of an application. The last 20 of each are kept, until a day after the last.
	Refuse(ctx context.Context, applicationID int64, r Refusal) error
	// Refusals returns the refusals of an application, newest first.
	Refusals(ctx context.Context, applicationID int64) ([]Refusal, error)
}

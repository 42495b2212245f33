package factor

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Errors of passkeys.
var (
	// ErrNoPasskey: there is no such passkey or user handle, it is another's, or the user has none that works here.
	ErrNoPasskey = errors.New("no such passkey")
	// ErrPasskeyExists: the credential is registered already, for this or another user.
	ErrPasskeyExists = errors.New("passkey is registered already")
	// ErrTooManyPasskeys: the user has MaxPasskeys.
	ErrTooManyPasskeys = errors.New("too many passkeys")
	// ErrPasskeyFailed: an authenticator's answer was refused, whatever the cause: the client does not learn it.
	ErrPasskeyFailed = errors.New("passkey was not accepted")
	// ErrPasskeyCloned: the signature counter did not advance (WebAuthn Level 3,
	// section 6.1.1). It wraps ErrPasskeyFailed.
	ErrPasskeyCloned = passkeyError("signature counter did not advance")

	// ErrRequired: the household requires a second factor, and the user would have none.
	ErrRequired = errors.New("the household requires a second factor")

	// ErrLastPasskey: the user has no password, and this is the last passkey of its RP ID.
	ErrLastPasskey = errors.New("last passkey of a user without a password")

	// ErrPasskeysUnavailable: this server cannot offer passkeys. The next three say why
	// and wrap it.
	ErrPasskeysUnavailable = errors.New("passkeys are not available")
	ErrNoPublicURL         = unavailable("PUBLIC_URL is not set")
	ErrNotHTTPS            = unavailable("PUBLIC_URL is not https")
	ErrIPAddress           = unavailable("PUBLIC_URL names an IP address")
)

type passkeyError string

func (e passkeyError) Error() string { return "passkey was not accepted: " + string(e) }
func (passkeyError) Unwrap() error   { return ErrPasskeyFailed }

type unavailable string

func (e unavailable) Error() string { return "passkeys are not available: " + string(e) }
func (unavailable) Unwrap() error   { return ErrPasskeysUnavailable }

// MaxPasskeys is how many passkeys a user may have.
const MaxPasskeys = 25

// MaxPasskeyName is how long a passkey's name may be, in characters.
const MaxPasskeyName = 64

// HandleBytes is the length of a user handle (WebAuthn Level 3, section 14.6.1).
const HandleBytes = 64

// Credential is the public half of a key pair that an authenticator holds for a user.
type Credential struct {
	CredentialID []byte // the authenticator's, at most 1023 bytes
	RPID         string // of the relying party it belongs to
	Record       string // the RelyingParty's own encoding of all that it knows of it
	SignCount    uint32 // of the last accepted answer; 0 where the authenticator does not count
}

// Passkey is a stored credential.
type Passkey struct {
	Credential
	ID         int64
	UserID     int64
	Name       string    // 1 to MaxPasskeyName characters
	CreatedAt  time.Time // UTC, whole seconds, as LastUsedAt
	LastUsedAt time.Time // zero: not used since it was created
}

// FirstPasskey is what a person registers before they have a user.
type FirstPasskey struct {
	Credential
	Handle []byte // of the user
	Name   string
}

// PasskeyUser is a user with their passkeys, as a RelyingParty needs them.
type PasskeyUser struct {
	Handle      []byte // HandleBytes random bytes, made once, never the id
	Name        string // username
	DisplayName string
	Passkeys    []Passkey
}

// Assertion is an authenticator's accepted answer.
type Assertion struct {
	// Passkey is the one that answered, with Record and SignCount as they are to be
	// stored. Whether the counter advanced is the store's to decide.
	Passkey Passkey
	// FlagsChanged reports that the flag "backup eligible" is another one than the Record had, which the standard
	// forbids and some password managers do.
	FlagsChanged bool
}

// RelyingParty carries out the ceremonies of WebAuthn Level 3, section 7, without any
// store. Options are the JSON for the client, {"publicKey": …}; state is opaque and is
// passed back with the client's answer, once. Every refused answer is ErrPasskeyFailed.
type RelyingParty interface {
	// ID is the RP ID.
	ID() string
	// BeginRegister asks for a new credential that can be discovered, from an
	// authenticator without one of the user's. household is what the client calls the
	// relying party.
	BeginRegister(household string, u PasskeyUser) (options json.RawMessage, state []byte, err error)
	FinishRegister(u PasskeyUser, state []byte, answer json.RawMessage) (Credential, error)
	// BeginLogin asks for any passkey of this relying party.
	BeginLogin() (options json.RawMessage, state []byte, err error)
	// FinishLogin calls find with the user handle of the answer, and returns its error, but ErrPasskeyFailed for
	// ErrNoPasskey.
	FinishLogin(find func(handle []byte) (PasskeyUser, error), state []byte, answer json.RawMessage) (Assertion, error)
	// BeginVerify asks for a passkey of this user. ErrNoPasskey.
	BeginVerify(u PasskeyUser) (options json.RawMessage, state []byte, err error)
	FinishVerify(u PasskeyUser, state []byte, answer json.RawMessage) (Assertion, error)
	// Synced reports whether copies of a passkey are, or may be, on other devices.
	Synced(p Passkey) bool
}

// PasskeyStore keeps passkeys. Every method is one atomic step and safe for concurrent
// use, by several processes too.
type PasskeyStore interface {
	// PasskeyHandle returns the user's handle, which it makes for a user without one. It
	// never changes. user.ErrNotFound.
	PasskeyHandle(ctx context.Context, userID int64) ([]byte, error)
	// HandleOwner returns the id of the user of a handle. ErrNoPasskey.
	HandleOwner(ctx context.Context, handle []byte) (int64, error)
	// Passkeys returns the passkeys of a user, the oldest first.
	Passkeys(ctx context.Context, userID int64) ([]Passkey, error)
	// AddPasskey stores a credential if the user's row admits the session (user.User.Admits)
	// in that instant, else session.ErrNotFound. ErrPasskeyExists, ErrTooManyPasskeys,
	// user.ErrNotFound.
	AddPasskey(ctx context.Context, userID int64, name string, c Credential, stamp, sessionKey string) (Passkey, error)
	// UsePasskey stores what an accepted answer changes, if its counter is higher than
	// the stored one or both are 0, else ErrPasskeyCloned. ErrNoPasskey: it was removed
	// meanwhile.
	UsePasskey(ctx context.Context, a Assertion) error
	// RenamePasskey returns the passkey with its new name. ErrNoPasskey.
	RenamePasskey(ctx context.Context, userID, id int64, name string) (Passkey, error)
	// RemovePasskey deletes a passkey if the user's row admits the session, as AddPasskey, and turns the second factor
	// off if nothing of it is left. Where the passkey is one of rpID, this server's RP ID, those of others do not
	// count. ErrNoPasskey; ErrRequired when the household does not allow that; ErrLastPasskey of a user without a
	// password who has no other one of the same RP ID; session.ErrNotFound, user.ErrNotFound.
	RemovePasskey(ctx context.Context, userID, id int64, rpID, stamp, sessionKey string) error
	// ForeignPasskeys counts the passkeys of each RP ID but this one, of at most 20 RP IDs.
	ForeignPasskeys(ctx context.Context, rpID string) (map[string]int, error)
}

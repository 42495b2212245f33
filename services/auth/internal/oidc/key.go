package oidc

import (
	"context"
	"errors"
	"time"
)

// KeyState is the state of a key.
type KeyState string

// The states.
const (
	KeyNext    KeyState = "next"    // published, and becomes active after KeyAhead, or when the active one is revoked
	KeyActive  KeyState = "active"  // signs
	KeyRetired KeyState = "retired" // published for KeyPublished, and verifies hints for KeyVerifies
	KeyRevoked KeyState = "revoked" // verifies nothing
)

// Times of the states: until a next key signs, and how long a retired one is published and verifies hints.
const (
	KeyAhead     = 24 * time.Hour
	KeyPublished = 7 * 24 * time.Hour
	KeyVerifies  = 365 * 24 * time.Hour
)

// StoredKey is a key as it is stored: the private one is sealed.
type StoredKey struct {
	ID     string // thumbprint of the public key (RFC 7638)
	Alg    Alg
	Sealed []byte
	JWK    string // the public key
	State  KeyState
	Since  time.Time // of the state
}

// Published reports whether a key is in the key set at an instant.
func (k StoredKey) Published(now time.Time) bool {
	return k.State == KeyNext || k.State == KeyActive || k.State == KeyRetired && now.Sub(k.Since) < KeyPublished
}

// Types of tokens (RFC 8725, section 3.11).
const (
	TypeID     = "JWT"
	TypeLogout = "logout+jwt"
)

// Signer makes the private keys of StoredKeys, seals and opens them with DATA_KEY, and signs with them.
type Signer interface {
	// Generate returns a new key, sealed, without State and Since. ErrNoDataKey; ErrField for another alg.
	Generate(alg Alg) (StoredKey, error)
	// Reseal returns a copy of keys, in which those that the previous DATA_KEY sealed are sealed by the current one.
	Reseal(keys []StoredKey) []StoredKey
	// Opens reports whether the private key can be opened.
	Opens(key StoredKey) bool
	// Sign signs claims, which are encoded as JSON, with a key. ErrSealed, and the error of ctx.
	Sign(ctx context.Context, key StoredKey, typ string, claims any) (string, error)
	// Verify returns the claims, JSON, of a token of a type that one of the keys has signed, with the key's own
	// algorithm. ErrToken.
	Verify(keys []StoredKey, typ, token string) ([]byte, error)
}

// Errors of keys.
var (
	ErrNoDataKey = errors.New("DATA_KEY is not set")
	ErrSealed    = errors.New("sealed key cannot be opened: another DATA_KEY?")
	ErrToken     = errors.New("token is none of ours")
	ErrNoKey     = errors.New("no such key")
)

package factor

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"strconv"
)

// KeyBytes is the length of a key that seals secrets.
const KeyBytes = 32

// Errors of a Sealer.
var (
	ErrKey = errors.New("is not 64 hexadecimal digits")
	// ErrSealed: a secret was sealed with another key, for another user, or is damaged.
	ErrSealed = errors.New("sealed secret cannot be opened: another DATA_KEY?")
)

// Sealer encrypts secrets of users at rest, with AES-256-GCM and the user's id as
// additional data, so that one user's sealed secret is not another's. A nil Sealer has no
// key.
type Sealer struct {
	current cipher.AEAD
	// previous opens what was sealed before the key was changed; may be nil.
	previous cipher.AEAD
}

// NewSealer returns a Sealer with keys in hexadecimal, or nil where key is empty. ErrKey.
func NewSealer(key, previous string) (*Sealer, error) {
	if key == "" {
		return nil, nil //nolint:nilnil // a nil Sealer is meant
	}
	var s Sealer
	var err error
	if s.current, err = newAEAD(key); err != nil {
		return nil, err
	}
	if previous != "" {
		if s.previous, err = newAEAD(previous); err != nil {
			return nil, err
		}
	}
	return &s, nil
}

func newAEAD(key string) (cipher.AEAD, error) {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) != KeyBytes {
		return nil, ErrKey
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func owner(userID int64) []byte { return strconv.AppendInt(nil, userID, 10) }

// Seal encrypts a user's secret. ErrNotConfigured.
func (s *Sealer) Seal(userID int64, secret []byte) ([]byte, error) {
	if s == nil {
		return nil, ErrNotConfigured
	}
	return s.current.Seal(nil, nil, secret, owner(userID)), nil
}

// Open decrypts a user's secret; old reports that it was sealed with the previous key.
// ErrNotConfigured, ErrSealed.
func (s *Sealer) Open(userID int64, sealed []byte) (secret []byte, old bool, err error) {
	if s == nil {
		return nil, false, ErrNotConfigured
	}
	if secret, err = s.current.Open(nil, nil, sealed, owner(userID)); err == nil {
		return secret, false, nil
	}
	if s.previous != nil {
		if secret, err = s.previous.Open(nil, nil, sealed, owner(userID)); err == nil {
			return secret, true, nil
		}
	}
	return nil, false, ErrSealed
}

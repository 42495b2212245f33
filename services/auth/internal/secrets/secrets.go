// Package secrets makes random secrets and ids, and the hashes that stores have of them.
package secrets

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// size is the length in bytes: 256 bits cannot be guessed.
const size = 32

// New returns a random secret, base64url.
func New() string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// Is reports whether a text has the form of New.
func Is(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// Decoding passes over line breaks.
	return err == nil && len(b) == size && len(text) == base64.RawURLEncoding.EncodedLen(size)
}

// Hash returns what a store has of a secret: its SHA-256, hexadecimal, so that the store's content does not yield it.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

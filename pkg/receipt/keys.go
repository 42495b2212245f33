package receipt

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

const privateKeyBlock = "PRIVATE KEY" // the PEM label of PKCS#8 (RFC 7468 section 10)

// SigningKey is the Ed25519 key that signs receipts. All replicas share one:
// a key for each would break that equal questions have equal answers.
type SigningKey struct {
	private ed25519.PrivateKey
	id      string
}

// GenerateKey makes a new key from the system's randomness.
func GenerateKey() (*SigningKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return newSigningKey(private), nil
}

// NewKeyFromSeed makes the key of a seed of 32 bytes (RFC 8032 section 5.1.5).
func NewKeyFromSeed(seed []byte) (*SigningKey, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("seed has %d bytes, not %d", len(seed), ed25519.SeedSize)
	}
	return newSigningKey(ed25519.NewKeyFromSeed(seed)), nil
}

// ParseSigningKey reads a PKCS#8 PEM private key (RFC 8410), as `receipt keygen`
// and `openssl genpkey -algorithm ed25519` write it. No error quotes the input.
func ParseSigningKey(text []byte) (*SigningKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != privateKeyBlock {
		return nil, errors.New("signing key is not a PEM block PRIVATE KEY (PKCS#8)")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("signing key is not PKCS#8")
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("signing key is not an Ed25519 key")
	}
	return newSigningKey(private), nil
}

func newSigningKey(private ed25519.PrivateKey) *SigningKey {
	public := private.Public().(ed25519.PublicKey)
	return &SigningKey{private: private, id: KeyID(public)}
}

// PEM returns the key as PKCS#8 PEM. This is the secret.
func (k *SigningKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encode signing key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: der}), nil
}

// ID returns the key's id.
func (k *SigningKey) ID() string { return k.id }

// Public returns the public key.
func (k *SigningKey) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Format prints the id whatever the verb, so that no log shows the secret.
func (k *SigningKey) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, k.id) }

// KeyID is "sha256:" and the hexadecimal SHA-256 of the key's SPKI DER, so that
// an id can never be given to another key.
func KeyID(public ed25519.PublicKey) string {
	digest := sha256.Sum256(marshalPublic(public))
	return "sha256:" + hex.EncodeToString(digest[:])
}

// spkiPrefix is the SPKI DER of an Ed25519 key up to the key itself (RFC 8410
// section 10.1); there is no other encoding of one.
var spkiPrefix = []byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}

func marshalPublic(public ed25519.PublicKey) []byte {
	return append(spkiPrefix[:len(spkiPrefix):len(spkiPrefix)], public...)
}

func parsePublic(text string) (ed25519.PublicKey, error) {
	der, ok := decodeBase64(text)
	if !ok || len(der) != len(spkiPrefix)+ed25519.PublicKeySize || string(der[:len(spkiPrefix)]) != string(spkiPrefix) {
		return nil, malformed("public key is not the base64 SPKI DER of an Ed25519 key")
	}
	return ed25519.PublicKey(der[len(spkiPrefix):]), nil
}

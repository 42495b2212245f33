package facilitator

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// CDPURL is the base of Coinbase's facilitator.
const CDPURL = "https://api.cdp.coinbase.com/platform/v2/x402"

// tokenLife is how long a token is good for (package @coinbase/cdp-sdk).
const tokenLife = 2 * time.Minute

// CDPKey makes the bearer tokens of Coinbase's Developer Platform: one JWT for
// each call, bound to its method, host and path.
type CDPKey struct {
	id     string
	method jwt.SigningMethod
	key    crypto.Signer
}

// ParseCDPKey reads a CDP key: an Ed25519 key as the base64 of seed and public
// key, or a PEM of an elliptic curve key (P-256). No error quotes the secret.
func ParseCDPKey(id, secret string) (*CDPKey, error) {
	if id == "" {
		return nil, errors.New("CDP key has no id")
	}
	if strings.Contains(secret, "-----BEGIN") {
		key, err := parseEC(strings.ReplaceAll(secret, `\n`, "\n"))
		if err != nil {
			return nil, err
		}
		return &CDPKey{id: id, method: jwt.SigningMethodES256, key: key}, nil
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(secret))
	if err != nil || len(raw) != ed25519.PrivateKeySize {
		return nil, errors.New("CDP secret is neither base64 of 64 bytes nor a PEM")
	}
	key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if !key.Equal(ed25519.PrivateKey(raw)) {
		return nil, errors.New("CDP secret's two halves do not belong together")
	}
	return &CDPKey{id: id, method: jwt.SigningMethodEdDSA, key: key}, nil
}

// parseEC reads a P-256 key as SEC 1 or PKCS#8.
func parseEC(text string) (*ecdsa.PrivateKey, error) {
	key, err := jwt.ParseECPrivateKeyFromPEM([]byte(text))
	switch {
	case errors.Is(err, jwt.ErrKeyMustBePEMEncoded):
		return nil, errors.New("CDP secret is not a whole PEM")
	case err != nil:
		return nil, errors.New("CDP secret is no elliptic curve key")
	case key.Curve != elliptic.P256():
		return nil, errors.New("CDP secret is not on the curve P-256")
	}
	return key, nil
}

// Sign makes the token of one call.
func (k *CDPKey) Sign(method, host, path string, now time.Time) (string, error) {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	token := jwt.NewWithClaims(k.method, jwt.MapClaims{
		"sub": k.id, "iss": "cdp", "uris": []string{method + " " + host + path},
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(tokenLife).Unix(),
	})
	token.Header["kid"] = k.id
	token.Header["nonce"] = hex.EncodeToString(nonce)
	signed, err := token.SignedString(k.key)
	if err != nil {
		return "", fmt.Errorf("sign a CDP token: %w", err)
	}
	return signed, nil
}

// Format prints the id whatever the verb, so that no log shows the secret.
func (k *CDPKey) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, k.id) }

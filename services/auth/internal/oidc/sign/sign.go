package sign

import (
	"context"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/pforte/pforte/services/auth/internal/oidc"
)

const (
	rsaBits = 2048
	// maxToken bounds a token to verify, in bytes.
	maxToken = 8 << 10
	// maxOpen bounds the opened keys in memory: there are a few, which rotations replace.
	maxOpen = 16
)

// Options are the parts of a Keyring. All fields are required unless noted.
type Options struct {
	// DataKey seals private keys; empty: none can be made. Previous, which may be empty, opens those that were sealed
	// before DATA_KEY was changed.
	DataKey, Previous []byte
	// Observe is told how long each signature took, with the wait for a place.
	Observe func(time.Duration)
}

// Keyring opens sealed keys and signs with them. It is safe for concurrent use.
type Keyring struct {
	current, previous cipher.AEAD // nil: not set
	observe           func(time.Duration)
	places            chan struct{} // as many signatures at once as Go has processors

	mu   sync.Mutex
	open map[string]crypto.Signer // by kid
}

// New checks the options and returns a Keyring.
func New(o Options) (*Keyring, error) {
	if o.Observe == nil {
		return nil, errors.New("sign: Observe is not set")
	}
	r := &Keyring{
		observe: o.Observe, places: make(chan struct{}, runtime.GOMAXPROCS(0)), open: map[string]crypto.Signer{},
	}
	var err error
	if len(o.DataKey) > 0 {
		r.current, err = newAEAD(o.DataKey)
	}
	if err == nil && len(o.Previous) > 0 {
		r.previous, err = newAEAD(o.Previous)
	}
	return r, err
}

// newAEAD returns an AEAD whose key is derived from DATA_KEY for this use alone.
func newAEAD(dataKey []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, dataKey, nil, "keys of the OpenID provider", 32)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Generate implements oidc.Signer.
func (r *Keyring) Generate(alg oidc.Alg) (oidc.StoredKey, error) {
	if r.current == nil {
		return oidc.StoredKey{}, oidc.ErrNoDataKey
	}
	var private crypto.Signer
	var err error
	switch alg {
	case oidc.RS256:
		private, err = rsa.GenerateKey(rand.Reader, rsaBits)
	case oidc.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		return oidc.StoredKey{}, oidc.ErrField
	}
	if err != nil {
		return oidc.StoredKey{}, fmt.Errorf("generate key: %w", err)
	}
	public := jose.JSONWebKey{Key: private.Public(), Algorithm: string(alg), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return oidc.StoredKey{}, fmt.Errorf("generate key: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	jwk, err := json.Marshal(public)
	if err != nil {
		return oidc.StoredKey{}, fmt.Errorf("generate key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return oidc.StoredKey{}, fmt.Errorf("generate key: %w", err)
	}
	return oidc.StoredKey{
		ID: public.KeyID, Alg: alg, Sealed: r.current.Seal(nil, nil, der, []byte(public.KeyID)), JWK: string(jwk),
	}, nil
}

// unseal returns a private key as PKCS #8; old reports that the previous DATA_KEY sealed it. oidc.ErrSealed.
func (r *Keyring) unseal(k oidc.StoredKey) (der []byte, old bool, err error) {
	for _, aead := range []cipher.AEAD{r.current, r.previous} {
		if aead == nil {
			continue
		}
		if der, err := aead.Open(nil, nil, k.Sealed, []byte(k.ID)); err == nil {
			return der, aead == r.previous, nil
		}
	}
	return nil, false, oidc.ErrSealed
}

// Reseal implements oidc.Signer.
func (r *Keyring) Reseal(keys []oidc.StoredKey) []oidc.StoredKey {
	resealed := make([]oidc.StoredKey, len(keys))
	for i, k := range keys {
		der, old, err := r.unseal(k)
		if err == nil && old && r.current != nil {
			k.Sealed = r.current.Seal(nil, nil, der, []byte(k.ID))
		}
		resealed[i] = k // one that cannot be opened stays as it is: its DATA_KEY may come back
	}
	return resealed
}

// signer returns the opened key. oidc.ErrSealed.
func (r *Keyring) signer(k oidc.StoredKey) (crypto.Signer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if opened, ok := r.open[k.ID]; ok {
		return opened, nil
	}
	der, _, err := r.unseal(k)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("open key: %w", err)
	}
	opened, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, oidc.ErrSealed
	}
	if len(r.open) >= maxOpen {
		clear(r.open)
	}
	r.open[k.ID] = opened
	return opened, nil
}

// Opens implements oidc.Signer.
func (r *Keyring) Opens(k oidc.StoredKey) bool {
	_, err := r.signer(k)
	return err == nil
}

// Sign implements oidc.Signer.
func (r *Keyring) Sign(ctx context.Context, k oidc.StoredKey, typ string, claims any) (string, error) {
	begun := time.Now()
	private, err := r.signer(k)
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.SignatureAlgorithm(k.Alg), Key: jose.JSONWebKey{Key: private, KeyID: k.ID},
	}, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return "", fmt.Errorf("wait to sign token: %w", ctx.Err())
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	r.observe(time.Since(begun))
	return signed.CompactSerialize()
}

// Verify implements oidc.Signer.
func (r *Keyring) Verify(keys []oidc.StoredKey, typ, token string) ([]byte, error) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil, oidc.ErrToken
	}
	for _, k := range keys {
		// One key at a time: a token is parsed with that key's algorithm alone.
		signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(k.Alg)})
		if err != nil || len(signed.Signatures) != 1 || signed.Signatures[0].Protected.KeyID != k.ID {
			continue
		}
		if found, ok := signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType].(string); !ok || found != typ {
			continue
		}
		var public jose.JSONWebKey
		if err := public.UnmarshalJSON([]byte(k.JWK)); err != nil || !public.IsPublic() {
			return nil, fmt.Errorf("%w: stored key %s", oidc.ErrToken, k.ID)
		}
		payload, err := signed.Verify(public.Key)
		if err != nil {
			return nil, oidc.ErrToken
		}
		return payload, nil
	}
	return nil, oidc.ErrToken
}

var _ oidc.Signer = (*Keyring)(nil)

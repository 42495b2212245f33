package receipt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

const privateKeyBlock = "PRIVATE KEY" // the PEM label of PKCS#8 (RFC 7468 section 10)

// SigningKey is the Ed25519 key that signs receipts. The replicas of a verifier share
// one, so that equal questions have equal answers.
type SigningKey struct {
	private ed25519.PrivateKey
	id      string
}

// GenerateKey returns a new key from the system's randomness.
func GenerateKey() (*SigningKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return newSigningKey(private), nil
}

// NewKeyFromSeed returns the key of a seed of 32 bytes (RFC 8032 section 5.1.5).
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

// PEM returns the secret key as PKCS#8 PEM.
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

// KeyID returns the id of a key: "sha256:" and the hexadecimal SHA-256 of its SPKI DER.
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

// KeyDocument is what /.well-known/receipt-signing-key.json serves: the key that
// signs now, at the top, and all keys with their states.
type KeyDocument struct {
	Algorithm       string `json:"algorithm"`       // always Algorithm
	KeyID           string `json:"keyId"`           // of the active key
	PublicKey       string `json:"publicKey"`       // of the active key: SPKI DER, base64
	PublicKeyFormat string `json:"publicKeyFormat"` // always PublicKeyFormat
	PayloadType     string `json:"payloadType"`     // always PayloadType
	// PayloadTypes lists the payload type of every kind of receipt; absent in documents that
	// were made before there was a second kind.
	PayloadTypes     []string `json:"payloadTypes,omitempty"`
	Canonicalization string   `json:"canonicalization"` // always Canonicalization
	Signing          string   `json:"signing"`          // always Signing
	Chain            string   `json:"chain"`            // CAIP-2 id of the first chain served
	Keys             []Key    `json:"keys"`             // exactly one of them active
}

// PublicKeyFormat is how a key document encodes public keys.
const PublicKeyFormat = "spki-der-base64"

// Key is one public key and its state. The times are RFC 3339 or "", and decide nothing,
// because a receipt does not say when it was signed.
type Key struct {
	KeyID      string `json:"keyId"`
	PublicKey  string `json:"publicKey"` // SPKI DER, base64
	Status     string `json:"status"`
	ValidFrom  string `json:"validFrom,omitempty"`
	ValidUntil string `json:"validUntil,omitempty"`
	RevokedAt  string `json:"revokedAt,omitempty"`
	// Logged is the cut-off of a revoked key; nil where all that it signed is invalid.
	Logged *Logged `json:"logged,omitempty"`
}

// Logged is the cut-off of a revoked key: what it signed stays valid where the log of
// receipts with this origin has it at an index below Before (package receiptlog).
// Without a proof of that, and in a log that neither Origin nor Earlier names, nothing that
// the key signed is valid.
type Logged struct {
	Origin string `json:"origin"`
	Before string `json:"before"` // index, decimal
	// Earlier are the cut-offs in other generations of the log (package receiptlog). None
	// of them has Earlier itself.
	Earlier []Logged `json:"earlier,omitempty"`
}

// All returns the cut-off of each generation: l itself, and Earlier.
func (l Logged) All() []Logged {
	return append([]Logged{{Origin: l.Origin, Before: l.Before}}, l.Earlier...)
}

// States of a key.
const (
	KeyActive  = "active"  // signs now
	KeyNext    = "next"    // published ahead, will sign; accepted, because documents are cached
	KeyRetired = "retired" // signs no more; its receipts stay valid
	KeyRevoked = "revoked" // withdrawn; what it signed is valid only before the cut-off of Logged
)

// GoodAt reports whether a signature by the key is good that the log with an origin has at
// an index: the key is not revoked, or the index is below the key's cut-off in that log.
func (k Key) GoodAt(origin string, index int64) bool {
	if k.Status != KeyRevoked {
		return true
	}
	if k.Logged == nil {
		return false
	}
	for _, cutOff := range k.Logged.All() {
		if cutOff.Origin == origin {
			before, err := cutOff.Index()
			return err == nil && index >= 0 && index < before
		}
	}
	return false
}

// Index returns Before as a number. ErrMalformed.
func (l Logged) Index() (int64, error) {
	before, err := strconv.ParseInt(l.Before, 10, 64)
	if err != nil || before < 0 || strconv.FormatInt(before, 10) != l.Before {
		return 0, malformed("the cut-off is not a decimal number")
	}
	return before, nil
}

// NewKeyDocument returns the document of an active key and of others, as ParseKeys returns them.
// The active key may be among others: it is listed once, as active, with the ValidFrom that it has
// there; ErrRevokedKey if it is revoked there. ErrMalformed.
func NewKeyDocument(active *SigningKey, chain string, others ...Key) (KeyDocument, error) {
	first := Key{
		KeyID: active.id, Status: KeyActive,
		PublicKey: base64.StdEncoding.EncodeToString(marshalPublic(active.Public())),
	}
	keys := []Key{first}
	for _, other := range others {
		switch {
		case other.KeyID != first.KeyID:
			keys = append(keys, other)
		case other.Status == KeyRevoked:
			return KeyDocument{}, fmt.Errorf("%w: the signing key %s is listed as revoked", ErrRevokedKey, active.id)
		default:
			keys[0].ValidFrom = other.ValidFrom
		}
	}
	doc := KeyDocument{
		Algorithm: Algorithm, KeyID: first.KeyID, PublicKey: first.PublicKey, PublicKeyFormat: PublicKeyFormat,
		PayloadType: PayloadType, PayloadTypes: []string{PayloadType, TransferPayloadType},
		Canonicalization: Canonicalization, Signing: Signing, Chain: chain, Keys: keys,
	}
	return doc, doc.validate()
}

// ParseKeyDocument reads a key document. Members that it does not know are ignored, so
// that documents may grow. ErrMalformed.
func ParseKeyDocument(data []byte) (KeyDocument, error) {
	var doc KeyDocument
	if err := strictjson.Unmarshal(data, &doc, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return KeyDocument{}, malformed("key document: %v", err)
	}
	return doc, doc.validate()
}

// Find returns the key with an id. ErrUnknownKey when there is none; ErrRevokedKey, with
// the Key, when it is revoked; ErrMalformed when it is one that ParseKeyDocument refuses.
func (d KeyDocument) Find(id string) (Key, ed25519.PublicKey, error) {
	for _, key := range d.Keys {
		if key.KeyID != id {
			continue
		}
		if key.Status == KeyRevoked {
			return key, nil, fmt.Errorf("%w: %s", ErrRevokedKey, id)
		}
		public, err := key.public()
		return key, public, err
	}
	return Key{}, nil, fmt.Errorf("%w: %s", ErrUnknownKey, id)
}

// ParseKeys reads the keys that do not sign, as RECEIPT_RETIRED_KEYS_FILE has them: a JSON list of
// keys, or a whole key document that was published earlier. A key that is active there is returned as
// retired. In a list a key may lack its keyId, and its status, which then is retired. ErrMalformed.
func ParseKeys(data []byte) ([]Key, error) {
	var keys []Key
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '[' {
		if err := strictjson.Unmarshal(data, &keys, strictjson.Rules{AllowNull: true}); err != nil {
			return nil, malformed("key list: %v", err)
		}
	} else {
		doc, err := ParseKeyDocument(data)
		if err != nil {
			return nil, err
		}
		keys = doc.Keys
	}
	for i := range keys {
		key := &keys[i]
		if key.Status == KeyActive || key.Status == "" {
			key.Status = KeyRetired
		}
		if public, err := parsePublic(key.PublicKey); err == nil && key.KeyID == "" {
			key.KeyID = KeyID(public)
		}
	}
	return keys, validateKeys(keys)
}

func (d KeyDocument) validate() error {
	for _, member := range []struct{ name, is, must string }{
		{"algorithm", d.Algorithm, Algorithm},
		{"publicKeyFormat", d.PublicKeyFormat, PublicKeyFormat},
		{"payloadType", d.PayloadType, PayloadType},
		{"canonicalization", d.Canonicalization, Canonicalization},
		{"signing", d.Signing, Signing},
	} {
		if member.is != member.must {
			return malformed("key document: %s is not %s", member.name, member.must)
		}
	}
	if !chainID(d.Chain) {
		return malformed("key document: chain is not a CAIP-2 id of namespace eip155")
	}
	active := 0
	for _, key := range d.Keys {
		if key.Status != KeyActive {
			continue
		}
		if active++; key.KeyID != d.KeyID || key.PublicKey != d.PublicKey {
			return malformed("key document: the active key is not the one at the top")
		}
	}
	if active != 1 {
		return malformed("key document: %d active keys, not one", active)
	}
	return validateKeys(d.Keys)
}

func validateKeys(keys []Key) error {
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		if _, err := key.public(); err != nil {
			return err
		}
		if seen[key.KeyID] {
			return malformed("key %s is listed twice", key.KeyID)
		}
		seen[key.KeyID] = true
	}
	return nil
}

// public checks the members of a key and returns its public key. ErrMalformed.
func (k Key) public() (ed25519.PublicKey, error) {
	public, err := parsePublic(k.PublicKey)
	if err != nil {
		return nil, err
	}
	if k.KeyID != KeyID(public) {
		return nil, malformed("keyId is not the SHA-256 of the public key")
	}
	switch k.Status {
	case KeyActive, KeyNext, KeyRetired, KeyRevoked:
	default:
		return nil, malformed("key %s has no known status", k.KeyID)
	}
	for _, moment := range []string{k.ValidFrom, k.ValidUntil, k.RevokedAt} {
		if _, err := time.Parse(time.RFC3339, moment); moment != "" && err != nil {
			return nil, malformed("key %s has a time that is not RFC 3339", k.KeyID)
		}
	}
	if k.Logged != nil {
		seen := map[string]bool{"": true}
		for _, cutOff := range k.Logged.All() {
			if _, err := cutOff.Index(); err != nil || k.Status != KeyRevoked || seen[cutOff.Origin] ||
				cutOff.Earlier != nil {
				return nil, malformed("key %s has a cut-off that is not one of a revoked key", k.KeyID)
			}
			seen[cutOff.Origin] = true
		}
	}
	return public, nil
}

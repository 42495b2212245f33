// Package passkeytest has an authenticator in software, for tests.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"testing"
)

// Flags of authenticator data (WebAuthn Level 3, section 6.1).
const (
	UserPresent    = 0x01
	UserVerified   = 0x04
	BackupEligible = 0x08
	BackupState    = 0x10
	attested       = 0x40
)

// Authenticator is an authenticator with the browser around it. Its fields may be changed
// between two ceremonies, to what a wrong one would send.
type Authenticator struct {
	t testing.TB
	// Origin of the page, as the browser sees it.
	Origin string
	// RPID is that of the authenticator data; empty: the key's.
	RPID  string
	Flags byte
	// Count is the signature counter; it advances before each answer by Step.
	Count, Step uint32
	// Extensions are the client's outputs.
	Extensions map[string]any
	// Handle is sent instead of the stored user handle, unless nil; empty: none.
	Handle []byte
	// CrossOrigin says that the page is in a frame of a foreign one.
	CrossOrigin bool
	// NextID is the id of new credentials; nil: each gets a random one.
	NextID []byte
	// BadSignature sends a signature of other data.
	BadSignature bool

	Keys []*Key
}

// Key is one of an authenticator's credentials.
type Key struct {
	ID, Handle []byte
	RPID       string
	private    *ecdsa.PrivateKey
}

// New returns an authenticator without credentials, in a browser at an origin.
func New(t testing.TB, origin string) *Authenticator {
	return &Authenticator{t: t, Origin: origin, Flags: UserPresent | UserVerified | BackupEligible | BackupState}
}

type descriptor struct {
	ID string `json:"id"`
}

type options struct {
	PublicKey struct {
		Challenge string                                 `json:"challenge"`
		RPID      string                                 `json:"rpId"`
		RP        struct{ ID string }                    `json:"rp"`
		User      struct{ ID, Name, DisplayName string } `json:"user"`
		Exclude   []descriptor                           `json:"excludeCredentials"`
		Allow     []descriptor                           `json:"allowCredentials"`
	} `json:"publicKey"`
}

// Create answers options of a registration.
func (a *Authenticator) Create(publicKey json.RawMessage) json.RawMessage {
	a.t.Helper()
	o := a.read(publicKey)
	for _, excluded := range o.PublicKey.Exclude {
		if slices.ContainsFunc(a.Keys, func(k *Key) bool { return encode(k.ID) == excluded.ID }) {
			a.t.Fatal("the authenticator has one of the excluded credentials")
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	k := &Key{ID: make([]byte, 16), Handle: a.decode(o.PublicKey.User.ID), RPID: o.PublicKey.RP.ID, private: private}
	_, _ = rand.Read(k.ID)
	if a.NextID != nil {
		k.ID = a.NextID
	}
	a.Keys = append(a.Keys, k)
	point, err := private.PublicKey.Bytes() // 4, x, y
	if err != nil {
		a.t.Fatal(err)
	}
	cose := slices.Concat([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33],
		[]byte{0x22, 0x58, 0x20}, point[33:])
	data := slices.Concat(a.authData(k.RPID, attested), make([]byte, 16), []byte{0, byte(len(k.ID))}, k.ID, cose)
	object := slices.Concat([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59"),
		binary.BigEndian.AppendUint16(nil, uint16(len(data))), data)
	return a.answer(k, map[string]any{
		"clientDataJSON":    encode(a.clientData("webauthn.create", o.PublicKey.Challenge)),
		"attestationObject": encode(object), "transports": []string{"internal"},
	})
}

// Get answers options of a login with the newest key that they allow.
func (a *Authenticator) Get(publicKey json.RawMessage) json.RawMessage {
	a.t.Helper()
	o := a.read(publicKey)
	for _, k := range slices.Backward(a.Keys) {
		if k.RPID == o.PublicKey.RPID && (len(o.PublicKey.Allow) == 0 ||
			slices.Contains(o.PublicKey.Allow, descriptor{encode(k.ID)})) {
			return a.GetWith(k, publicKey)
		}
	}
	a.t.Fatal("the authenticator has none of the allowed credentials")
	return nil
}

// GetWith answers options of a login with a key, whether they allow it or not.
func (a *Authenticator) GetWith(k *Key, publicKey json.RawMessage) json.RawMessage {
	a.t.Helper()
	data, client := a.authData(k.RPID, 0), a.clientData("webauthn.get", a.read(publicKey).PublicKey.Challenge)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(slices.Concat(data, hash[:]))
	if a.BadSignature {
		digest[0] ^= 1
	}
	signature, err := ecdsa.SignASN1(rand.Reader, k.private, digest[:])
	if err != nil {
		a.t.Fatal(err)
	}
	response := map[string]any{
		"clientDataJSON": encode(client), "authenticatorData": encode(data), "signature": encode(signature),
	}
	handle := k.Handle
	if a.Handle != nil {
		handle = a.Handle
	}
	if len(handle) > 0 {
		response["userHandle"] = encode(handle)
	}
	return a.answer(k, response)
}

func (a *Authenticator) read(publicKey json.RawMessage) (o options) {
	a.t.Helper()
	if err := json.Unmarshal(publicKey, &o); err != nil || o.PublicKey.Challenge == "" {
		a.t.Fatalf("options %s: %v", publicKey, err)
	}
	return o
}

func (a *Authenticator) authData(rpID string, more byte) []byte {
	if a.RPID != "" {
		rpID = a.RPID
	}
	a.Count += a.Step
	hash := sha256.Sum256([]byte(rpID))
	return binary.BigEndian.AppendUint32(append(hash[:], a.Flags|more), a.Count)
}

func (a *Authenticator) clientData(kind, challenge string) []byte {
	return a.json(map[string]any{
		"type": kind, "challenge": challenge, "origin": a.Origin, "crossOrigin": a.CrossOrigin,
	})
}

func (a *Authenticator) answer(k *Key, response map[string]any) json.RawMessage {
	outputs := a.Extensions
	if outputs == nil {
		outputs = map[string]any{}
	}
	return a.json(map[string]any{
		"id": encode(k.ID), "rawId": encode(k.ID), "type": "public-key", "authenticatorAttachment": "platform",
		"clientExtensionResults": outputs, "response": response,
	})
}

func (a *Authenticator) json(v any) []byte {
	a.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	return data
}

func (a *Authenticator) decode(text string) []byte {
	a.t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		a.t.Fatal(err)
	}
	return data
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

package receipt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

func newKey(t testing.TB) *receipt.SigningKey {
	t.Helper()
	key, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newDocument(t testing.TB, active *receipt.SigningKey, others ...receipt.Key) receipt.KeyDocument {
	t.Helper()
	doc, err := receipt.NewKeyDocument(active, "eip155:8453", others...)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestKey_SurvivesItsFile(t *testing.T) {
	key := newKey(t)
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	again, err := receipt.ParseSigningKey(text)
	if err != nil {
		t.Fatal(err)
	}
	if again.ID() != key.ID() || !again.Public().Equal(key.Public()) {
		t.Errorf("key %s comes back as %s", key.ID(), again.ID())
	}
}

func TestKey_OfOpenSSLIsRead(t *testing.T) {
	// openssl genpkey -algorithm ed25519, with the seed of RFC 8032 test 1.
	const text = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
`
	key, err := receipt.ParseSigningKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if key.ID() != testKey(t).ID() {
		t.Errorf("key id %s, want %s", key.ID(), testKey(t).ID())
	}
}

func TestKey_ThatIsNoneIsRefusedAndNotQuoted(t *testing.T) {
	const secret = "c2VjcmV0"
	for name, text := range map[string]string{
		"nothing":      "",
		"not PEM":      secret,
		"a public key": "-----BEGIN PUBLIC KEY-----\n" + secret + "\n-----END PUBLIC KEY-----\n",
		"not PKCS#8":   "-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----\n",
		"an X25519 key": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n" +
			"-----END PRIVATE KEY-----\n",
	} {
		_, err := receipt.ParseSigningKey([]byte(text))
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error quotes the input: %v", name, err)
		}
	}
	if _, err := receipt.NewKeyFromSeed([]byte("short")); err == nil {
		t.Error("a short seed: no error")
	}
}

func TestKey_IsNeverPrinted(t *testing.T) {
	key := testKey(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		if got := fmt.Sprintf(verb, key); got != key.ID() {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	if got := string(mustMarshal(t, key)); got != "{}" {
		t.Errorf("JSON shows %s", got)
	}
}

// signedBy is one receipt as several keys would have signed it.
func signedBy(t *testing.T, key *receipt.SigningKey) []byte {
	t.Helper()
	var r receipt.Receipt
	unmarshal(t, readVectors(t)[0].response.Receipt, &r)
	response, err := receipt.Sign(key, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := response.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestKeys_OldReceiptsVerifyAfterARotation(t *testing.T) {
	old, coming := newKey(t), newKey(t)
	oldReceipt, newReceipt := signedBy(t, old), signedBy(t, coming)

	// Ahead of the rotation the coming key is published.
	before := newDocument(t, old, withStatus(newDocument(t, coming).Keys[0], receipt.KeyNext))
	// After it, the document of former times is the list of retired keys.
	kept, err := receipt.ParseKeys(mustMarshal(t, before))
	if err != nil {
		t.Fatal(err)
	}
	after := newDocument(t, coming, kept...)
	var states []string
	for _, key := range after.Keys {
		states = append(states, key.Status)
	}
	if diff := cmp.Diff([]string{receipt.KeyActive, receipt.KeyRetired}, states); diff != "" {
		t.Errorf("states after the rotation (-want +got):\n%s", diff)
	}
	for name, doc := range map[string]receipt.KeyDocument{"before": before, "after": after} {
		for which, text := range map[string][]byte{"old": oldReceipt, "new": newReceipt} {
			judgeAlike(text, mustMarshal(t, doc), "")
			if _, err := receipt.Verify(text, doc); err != nil {
				t.Errorf("%s receipt, document %s the rotation: %v", which, name, err)
			}
		}
	}
}

func withStatus(key receipt.Key, status string) receipt.Key {
	key.Status = status
	return key
}

func TestKeys_ARevokedOneVerifiesNothing(t *testing.T) {
	stolen, fresh := newKey(t), newKey(t)
	text := signedBy(t, stolen)
	doc := newDocument(t, fresh, withStatus(newDocument(t, stolen).Keys[0], receipt.KeyRevoked))
	judgeAlike(text, mustMarshal(t, doc), "")
	if _, err := receipt.Verify(text, doc); !errors.Is(err, receipt.ErrRevokedKey) {
		t.Errorf("error %v, want ErrRevokedKey", err)
	}
	if _, err := receipt.NewKeyDocument(stolen, "eip155:8453", doc.Keys...); !errors.Is(err, receipt.ErrRevokedKey) {
		t.Errorf("signing with it: error %v, want ErrRevokedKey", err)
	}
}

func TestKeys_AnUnlistedOneVerifiesNothing(t *testing.T) {
	judgeAlike(signedBy(t, newKey(t)), mustMarshal(t, newDocument(t, newKey(t))), "")
	if _, err := receipt.Verify(signedBy(t, newKey(t)), newDocument(t, newKey(t))); !errors.Is(err, receipt.ErrUnknownKey) {
		t.Errorf("error %v, want ErrUnknownKey", err)
	}
}

func TestKeys_DocumentMayGrow(t *testing.T) {
	text := mustMarshal(t, newDocument(t, testKey(t)))
	text = bytes.Replace(text, []byte("{"), []byte(`{"note":null,"more":[1.5,{}],`), 1)
	judgeAlike(signedBy(t, testKey(t)), text, "")
	if _, err := receipt.ParseKeyDocument(text); err != nil {
		t.Error(err)
	}
}

func TestKeys_DocumentThatIsWrongIsRefused(t *testing.T) {
	other := newDocument(t, newKey(t)).Keys[0]
	for name, change := range map[string]func(*receipt.KeyDocument){
		"another algorithm":      func(d *receipt.KeyDocument) { d.Algorithm = "RSA" },
		"another payload type":   func(d *receipt.KeyDocument) { d.PayloadType = "text/plain" },
		"another signing":        func(d *receipt.KeyDocument) { d.Signing = "raw" },
		"another canonical form": func(d *receipt.KeyDocument) { d.Canonicalization = "" },
		"another key format":     func(d *receipt.KeyDocument) { d.PublicKeyFormat = "raw" },
		"no chain":               func(d *receipt.KeyDocument) { d.Chain = "" },
		"no keys":                func(d *receipt.KeyDocument) { d.Keys = nil },
		"no active key":          func(d *receipt.KeyDocument) { d.Keys[0].Status = receipt.KeyRetired },
		"two active keys":        func(d *receipt.KeyDocument) { d.Keys = append(d.Keys, other) },
		"a key twice":            func(d *receipt.KeyDocument) { d.Keys = append(d.Keys, withStatus(d.Keys[0], receipt.KeyRevoked)) },
		"another key at the top": func(d *receipt.KeyDocument) { d.KeyID, d.PublicKey = other.KeyID, other.PublicKey },
		"an id of another key":   func(d *receipt.KeyDocument) { d.Keys[0].KeyID, d.KeyID = other.KeyID, other.KeyID },
		"an unknown state":       func(d *receipt.KeyDocument) { d.Keys = append(d.Keys, withStatus(other, "paused")) },
		"a time that is none":    func(d *receipt.KeyDocument) { d.Keys[0].ValidFrom = "yesterday" },
		"a key that is not SPKI": func(d *receipt.KeyDocument) { d.Keys[0].PublicKey, d.PublicKey = "AAAA", "AAAA" },
		"a key of another type": func(d *receipt.KeyDocument) {
			d.Keys[0].PublicKey = strings.Replace(d.PublicKey, "MCowBQYDK2Vw", "MCowBQYDK2Vu", 1)
		},
		"a key that is not there": func(d *receipt.KeyDocument) { d.Keys[0].PublicKey = "" },
	} {
		doc := newDocument(t, testKey(t))
		change(&doc)
		judgeAlike(signedBy(t, testKey(t)), mustMarshal(t, doc), "")
		if _, err := receipt.ParseKeyDocument(mustMarshal(t, doc)); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", name, err)
		}
	}
	for _, text := range []string{``, `[]`, `{}`, `{"keys":[],"keys":[]}`, `null`} {
		judgeAlike(signedBy(t, testKey(t)), []byte(text), "")
		if _, err := receipt.ParseKeyDocument([]byte(text)); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%q: error %v, want ErrMalformed", text, err)
		}
	}
}

func TestKeys_RetiredOnesComeAsListOrDocument(t *testing.T) {
	doc := newDocument(t, testKey(t))
	want := []receipt.Key{withStatus(doc.Keys[0], receipt.KeyRetired)}
	short, err := json.Marshal([]map[string]string{{"publicKey": doc.PublicKey}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"a document":                    mustMarshal(t, doc),
		"a list":                        mustMarshal(t, doc.Keys),
		"a list with public keys alone": short,
	} {
		got, err := receipt.ParseKeys(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if keys, err := receipt.ParseKeys([]byte(" [] ")); err != nil || len(keys) != 0 {
		t.Errorf("an empty list: %v, %v", keys, err)
	}
	for _, text := range []string{``, `{}`, `[{}]`, `[{"publicKey":"AAAA"}]`, `[{"publickey":"AAAA"}]`, `["AAAA"]`} {
		if _, err := receipt.ParseKeys([]byte(text)); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%q: error %v, want ErrMalformed", text, err)
		}
	}
}

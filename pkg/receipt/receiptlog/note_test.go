package receiptlog_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

func TestCheckpoint_HasOneSpelling(t *testing.T) {
	root := strings.Repeat("A", 43) + "="
	good := origin + "\n5\n" + root + "\n"
	if c, err := receiptlog.ParseCheckpoint(good); err != nil || c.Text() != good {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{
		"", "\n", good[1:len(good)-1] + "", "\n5\n" + root + "\n", origin + "\n05\n" + root + "\n", origin + "\n-5\n" + root + "\n",
		origin + "\n+5\n" + root + "\n", origin + "\n5 \n" + root + "\n", origin + "\n1125899906842625\n" + root + "\n",
		origin + "\n5\n" + root[:42] + "B=\n", origin + "\n5\n" + root[4:] + "\n", origin + "\n0\n" + root + "\n",
		good + "extension\n", good + "\n", "a b\n5\n" + root + "\n", "a+b\n5\n" + root + "\n", strings.Repeat("a", 256) + "\n5\n" + root + "\n",
	} {
		if c, err := receiptlog.ParseCheckpoint(text); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%.60q is read as %+v, %v", text, c, err)
		}
	}
}

func TestKey_IsReadAsWritten(t *testing.T) {
	log, w := logSigner(t).Key, witness(t, 0).Key
	if got, err := receiptlog.ParseLogKey(log.String()); err != nil || got.String() != log.String() || got.Name() != origin {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := receiptlog.ParseWitnessKey(w.String()); err != nil || got.String() != w.String() {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := receiptlog.ParseLogKey(w.String()); !errors.Is(err, receiptlog.ErrMalformed) {
		t.Errorf("a witness's key as a log's: %v", err)
	}
	if _, err := receiptlog.ParseWitnessKey(log.String()); !errors.Is(err, receiptlog.ErrMalformed) {
		t.Errorf("a log's key as a witness's: %v", err)
	}
	text := log.String()
	name, rest, _ := strings.Cut(text, "+")
	id, key, _ := strings.Cut(rest, "+")
	for _, bad := range []string{
		"", "+", "++", name, name + "+" + id, name + "+" + id + "+", "+" + rest, "other+" + rest,
		name + "+" + strings.ToUpper(id) + "X+" + key, name + "+00000000+" + key, text + "\n", text + "=", name + " x+" + rest,
		name + "+" + id + "+" + key[4:], strings.Repeat("a", 300) + "+" + rest,
	} {
		if k, err := receiptlog.ParseLogKey(bad); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%q is read as %v, %v", bad, k, err)
		}
	}
}

func TestParsePrivateKey_ReadsPKCS8OfEd25519Only(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no PEM": "MC4CAQAwBQYDK2VwBCIEIA==", "another block": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
		"no key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	} {
		if _, err := receiptlog.ParsePrivateKey([]byte(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func TestKey_IsNotPrinted(t *testing.T) {
	s := logSigner(t)
	secret := seeded("log").Seed()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
		if text := fmt.Sprintf(verb, s); text != s.Key.String() || strings.Contains(text, fmt.Sprintf("%x", secret)) {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}

func TestKey_SignsOnlyCheckpointsOfItsLog(t *testing.T) {
	c := sample(t, 3).checkpoint(t, 3)
	c.Origin = "other.example.com/v1/log/1"
	if note, err := c.Sign(logSigner(t)); err == nil {
		t.Errorf("signed: %s", note)
	}
	c.Origin, c.Size = origin, 0
	if note, err := c.Sign(logSigner(t)); !errors.Is(err, receiptlog.ErrMalformed) {
		t.Errorf("an empty log with a root: %s, %v", note, err)
	}
}

func TestCheckpoint_IsOpenedWithTheLogsOwnKeyOnly(t *testing.T) {
	m := sample(t, 9)
	other := must[*receiptlog.Signer](t)(receiptlog.NewLogSigner("other.example.com", seeded("log")))
	foreign := must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(origin, seeded("another")))
	if c, err := receiptlog.OpenCheckpoint(m.signed(t, 0, 1), logSigner(t).Key); err != nil || c != m.checkpoint(t, 9) {
		t.Errorf("%+v, %v", c, err)
	}
	for name, key := range map[string]receiptlog.Key{"another origin": other.Key, "another key": foreign.Key, "a witness's": witness(t, 0).Key, "none": {}} {
		if c, err := receiptlog.OpenCheckpoint(m.signed(t, 0), key); !errors.Is(err, receiptlog.ErrUnknownLog) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// A log may not speak for the origin of another one, with a signature that is good.
func TestOpenCheckpoint_RefusesTheOriginOfAnotherLog(t *testing.T) {
	c := sample(t, 3).checkpoint(t, 3)
	c.Origin = "other.example.com/v1/log/1"
	key := logSigner(t).Key
	signature := append(binary.BigEndian.AppendUint32(nil, key.KeyHash()), ed25519.Sign(seeded("log"), []byte(c.Text()))...)
	signed := c.Text() + "\n\u2014 " + key.Name() + " " + base64.StdEncoding.EncodeToString(signature) + "\n"
	if got, err := receiptlog.OpenCheckpoint([]byte(signed), key); !errors.Is(err, receiptlog.ErrUnknownLog) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestVerify_TheZeroKeyVerifiesNothing(t *testing.T) {
	for _, size := range []int{0, ed25519.SignatureSize, 8 + ed25519.SignatureSize} {
		if (receiptlog.Key{}).Verify([]byte("text"), make([]byte, size)) {
			t.Errorf("a signature of %d bytes", size)
		}
		if size != 8+ed25519.SignatureSize && witness(t, 0).Key.Verify([]byte("text"), make([]byte, size)) {
			t.Errorf("a cosignature of %d bytes", size)
		}
	}
	if key, err := receiptlog.NewLogKey(origin, make([]byte, ed25519.PublicKeySize-1)); !errors.Is(err, receiptlog.ErrMalformed) {
		t.Errorf("a key of 31 bytes: %v, %v", key, err)
	}
}

func TestOpenCheckpoint_RefusesAWitnessInThePlaceOfALog(t *testing.T) {
	m := sample(t, 3)
	w := must[*receiptlog.Signer](t)(receiptlog.NewWitnessSigner(origin, seeded("witness"), func() time.Time { return time.Unix(1, 0) }))
	signed := must[[]byte](t)(m.checkpoint(t, 3).Sign(logSigner(t)))
	line := must[[]byte](t)(m.checkpoint(t, 3).Cosign(w))
	if c, err := receiptlog.OpenCheckpoint(append(signed, line...), w.Key); !errors.Is(err, receiptlog.ErrUnknownLog) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestCosignature_BoundsTheAnswer(t *testing.T) {
	m := sample(t, 3)
	c, w := m.checkpoint(t, 3), witness(t, 0)
	line, ok := c.Cosignature(m.signed(t, 0), w.Key)
	if !ok {
		t.Fatal("a witness's own line is not found")
	}
	if _, ok := c.Cosignature(append(bytes.Repeat([]byte("x\n"), receiptlog.MaxNote/2), line...), w.Key); ok {
		t.Errorf("an answer of more than %d bytes is read", receiptlog.MaxNote)
	}
}

func TestNote_LinesOfUnknownKeysAreIgnored(t *testing.T) {
	m := sample(t, 9)
	note := m.signed(t, 0, 1)
	unknown := "— unknown.example " + base64.StdEncoding.EncodeToString(make([]byte, 2500)) + "\n" // as long as ML-DSA-44's
	if w, err := policy(t, "two").Open(append(note, unknown...)); err != nil || len(w.Cosignatures) != 2 {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestNote_ABadLineOfAKnownKeyMakesItInvalid(t *testing.T) {
	m := sample(t, 9)
	of := m.checkpoint(t, 8)
	other := must[[]byte](t)(of.Cosign(witness(t, 2))) // of another checkpoint
	if w, err := policy(t, "two").Open(append(m.signed(t, 0, 1), other...)); !errors.Is(err, receiptlog.ErrSignature) {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestNote_AWitnessCountsOnce(t *testing.T) {
	m := sample(t, 9)
	line := must[[]byte](t)(m.checkpoint(t, 9).Cosign(witness(t, 0)))
	if w, err := policy(t, "two").Open(append(m.signed(t, 0), line...)); !errors.Is(err, receiptlog.ErrQuorum) {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestNote_ATimePastTheLastSecondIsRefused(t *testing.T) {
	key := witness(t, 0)
	for _, at := range []uint64{math.MaxInt64 + 1, math.MaxUint64} {
		sig := append(binary.BigEndian.AppendUint64(nil, at), make([]byte, 64)...)
		if key.Verify([]byte("x\n"), sig) {
			t.Errorf("%d verifies", at)
		}
	}
	early := must[*receiptlog.Signer](t)(receiptlog.NewWitnessSigner("w", seeded("w"), func() time.Time { return time.Unix(-1, 0) }))
	if _, err := early.Sign([]byte("x\n")); err == nil {
		t.Error("a clock before 1970 signs")
	}
}

func TestNote_HostileOnesAreBounded(t *testing.T) {
	note := sample(t, 3).signed(t)
	line := "— a.example " + base64.StdEncoding.EncodeToString(make([]byte, 68)) + "\n"
	for name, data := range map[string][]byte{
		"empty": nil, "only newlines": []byte("\n\n\n\n"), "too large": append(note, bytes.Repeat([]byte(line), 1000)...),
		"too many lines": append(note, bytes.Repeat([]byte(line), 101)...), "control character": append([]byte("\x01"), note...),
		"not UTF-8": append([]byte("\xff"), note...), "no line end": note[:len(note)-1], "two spellings": respelled(note),
		"no signatures": []byte(origin + "\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"),
	} {
		if w, err := policy(t, "none").Open(data); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
}

// respelled is a note with other unused bits in the base64 of its last line.
func respelled(note []byte) []byte {
	note = bytes.Clone(note)
	note[len(note)-3]++
	return note
}

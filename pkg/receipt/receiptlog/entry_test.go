package receiptlog_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

func TestEntry_CommitsToSignatureAndSignedBytes(t *testing.T) {
	doc := document(t, "base", "response.json")
	signature, err := base64.StdEncoding.DecodeString(doc.Signature.Value)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("chain-evidence-receipt log entry v1\n" + string(signature) +
		"DSSEv1 46 application/vnd.chain-evidence.receipt.v1+json " + strconv.Itoa(len(doc.Body)) + " " + string(doc.Body)))
	want := "chain-evidence-receipt/v1\n" + doc.Signature.KeyID + "\n" + base64.StdEncoding.EncodeToString(sum[:]) + "\n"
	if got := string(baseEntry(t).Bytes()); got != want || len(got) != 143 {
		t.Errorf("%d bytes\n%s\nwant\n%s", len(got), got, want)
	}
	leaf := sha256.Sum256([]byte("\x00" + want))
	if got := baseEntry(t).Leaf(); got != leaf {
		t.Errorf("leaf %x, want %x", got, leaf)
	}
}

func TestEntry_IsOneForBothPresentations(t *testing.T) {
	envelope := must[receiptlog.Entry](t)(receiptlog.EntryOf(document(t, "base", "dsse.json")))
	if envelope != baseEntry(t) {
		t.Errorf("%+v, not %+v", envelope, baseEntry(t))
	}
}

func TestEntry_DiffersForSignatureBodyAndKey(t *testing.T) {
	doc := document(t, "base", "response.json")
	pae := receipt.PAE(doc.Signature.PayloadType, doc.Body)
	signature := must[[]byte](t)(base64.StdEncoding.DecodeString(doc.Signature.Value))
	other := append([]byte{signature[0] ^ 1}, signature[1:]...)
	seen := map[receiptlog.Entry]bool{}
	for _, e := range []receiptlog.Entry{
		must[receiptlog.Entry](t)(receiptlog.NewReceiptEntry(doc.Signature.KeyID, signature, pae)),
		must[receiptlog.Entry](t)(receiptlog.NewReceiptEntry(doc.Signature.KeyID, other, pae)),
		must[receiptlog.Entry](t)(receiptlog.NewReceiptEntry(doc.Signature.KeyID, signature, pae[1:])),
		must[receiptlog.Entry](t)(receiptlog.NewReceiptEntry("sha256:"+strings.Repeat("00", 32), signature, pae)),
	} {
		seen[e] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d entries, not 4", len(seen))
	}
	if _, err := receiptlog.NewReceiptEntry(doc.Signature.KeyID, signature[1:], append(signature[:1:1], pae...)); !errors.Is(err, receiptlog.ErrMalformed) {
		t.Errorf("a signature of 63 bytes: %v", err)
	}
}

func TestEntry_IsReadAsWritten(t *testing.T) {
	id := keyDocument(t).KeyID
	entries := []receiptlog.Entry{baseEntry(t)}
	for _, state := range []string{receipt.KeyNext, receipt.KeyActive, receipt.KeyRetired} {
		entries = append(entries, must[receiptlog.Entry](t)(receiptlog.NewKeyEntry(id, state, 0)))
	}
	for _, before := range []int64{0, 12000, receiptlog.MaxSize} {
		entries = append(entries, must[receiptlog.Entry](t)(receiptlog.NewKeyEntry(id, receipt.KeyRevoked, before)))
	}
	for number, before := range []string{"", "57 in 1", "57 in 1, 100 in 2"} {
		entries = append(entries, must[receiptlog.Entry](t)(receiptlog.NewNumberedKeyEntry(int64(number+1), revokedIn(t, before))))
	}
	entries = append(entries, must[receiptlog.Entry](t)(receiptlog.NewNumberedKeyEntry(receiptlog.MaxSize, keyDocument(t).Keys[0])))
	for _, e := range entries {
		if got, err := receiptlog.ParseEntry(e.Bytes()); err != nil || got != e || len(e.Bytes()) > receiptlog.MaxEntry {
			t.Errorf("%q: %+v, %v", e.Bytes(), got, err)
		}
	}
}

func TestEntry_HasOneSpelling(t *testing.T) {
	id := keyDocument(t).KeyID
	sum := strings.Repeat("A", 43) + "="
	for _, text := range []string{
		"", "\n\n\n", "x/v1\n" + id + "\n" + sum + "\n",
		"chain-evidence-receipt/v1\n" + id + "\n" + sum,
		"chain-evidence-receipt/v1\n" + id + "\n" + sum + "\n\n",
		"chain-evidence-receipt/v1\n" + strings.ToUpper(id) + "\n" + sum + "\n",
		"chain-evidence-receipt/v1\n" + id[1:] + "\n" + sum + "\n",
		"chain-evidence-receipt/v1\n" + id[:len(id)-2] + "\n" + sum + "\n",
		"chain-evidence-receipt/v1\n" + id + "\n" + sum[:42] + "B=\n", // unused low bits
		"chain-evidence-receipt/v1\n" + id + "\n" + sum[4:] + "\n",
		"chain-evidence-receipt/v1\r\n" + id + "\n" + sum + "\n",
		"chain-evidence-key/v1\n" + id + "\n" + sum + "\n",
		"chain-evidence-key/v1\n" + id + "\nlost\n",
		"chain-evidence-key/v1\n" + id + "\nrevoked\n",
		"chain-evidence-key/v1\n" + id + "\nrevoked before 012\n",
		"chain-evidence-key/v1\n" + id + "\nrevoked before -1\n",
		"chain-evidence-key/v1\n" + id + "\nrevoked before +1\n",
		"chain-evidence-key/v1\n" + id + "\nactive before 0\n",
		"chain-evidence-key/v1\n" + id + "\nrevoked before 1 before 1\n",
		"chain-evidence-key/v2\n" + id + "\nactive\n",
		"chain-evidence-key/v2 #0\n" + id + "\nactive\n",
		"chain-evidence-key/v2 #01\n" + id + "\nactive\n",
		"chain-evidence-key/v1 #1\n" + id + "\nactive\n",
		"chain-evidence-receipt/v1 #1\n" + id + "\n" + sum + "\n",
		"chain-evidence-key/v2 #1\n" + id + "\nactive before 1 in 1\n",
		"chain-evidence-key/v2 #1\n" + id + "\nrevoked before \n",
		"chain-evidence-key/v2 #1\n" + id + "\nrevoked before 1\n",
		"chain-evidence-key/v2 #1\n" + id + "\nrevoked before 1 in 0\n",
		"chain-evidence-key/v2 #1\n" + id + "\nrevoked before 1 in 2, 1 in 1\n",
		"chain-evidence-key/v2 #1\n" + id + "\nrevoked before 1 in 1, 2 in 1\n",
		"chain-evidence-key/v2 #1\n" + id + "\nrevoked before 1 in 1,2 in 2\n",
		strings.Repeat("a", 1<<20),
	} {
		if e, err := receiptlog.ParseEntry([]byte(text)); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%.80q is read as %+v, %v", text, e, err)
		}
	}
}

func TestEntry_OfAnAnswerIsThatOfItsReceipt(t *testing.T) {
	vectors := must[[]string](t)(filepath.Glob("../testdata/vectors/*/response.json"))
	if len(vectors) < 3 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, file := range vectors {
		data := readFile(t, file)
		want := must[receiptlog.Entry](t)(receiptlog.EntryOf(must[receipt.Document](t)(receipt.Parse(data))))
		doc := must[receipt.Document](t)(receipt.Parse(data))
		answer := bytes.NewBuffer(must[[]byte](t)(receipt.Response{Receipt: doc.Body, Signature: doc.Signature, Proof: doc.Proof}.JSON()))
		if got, err := receiptlog.EntryOfAnswer(answer.Bytes()); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", file, got, err, want)
		}
	}
	for _, text := range []string{"", "{}", `{"signature":{},"receipt":{}}`, `{"receipt":{},"signature":{"value":"!"}}`, `{"receipt":"\\u003c\\u0000","signature":{}}`} {
		if e, err := receiptlog.EntryOfAnswer([]byte(text)); err == nil {
			t.Errorf("%s has the entry %+v", text, e)
		}
	}
}

// revokedIn returns the key of the vectors, revoked with cut-offs as an entry has them.
func revokedIn(t testing.TB, before string) receipt.Key {
	key := keyDocument(t).Keys[0]
	key.Status = receipt.KeyRevoked
	for _, cutOff := range strings.Split(before, ", ") {
		index, generation, ok := strings.Cut(cutOff, " in ")
		each := receipt.Logged{Origin: "verifier.example.com/v1/log/" + generation, Before: index}
		switch {
		case ok && key.Logged == nil:
			key.Logged = &each
		case ok:
			key.Logged.Earlier = append(key.Logged.Earlier, each)
		}
	}
	return key
}

func TestEntry_KeyStatesAreCountedAndNoCutOffGoesUp(t *testing.T) {
	const origin = "verifier.example.com/v1/log/2"
	id := keyDocument(t).KeyID
	first := "chain-evidence-key/v2 #4\n" + id + "\n"
	old := "chain-evidence-key/v1\n" + id + "\n"
	next := "chain-evidence-key/v2 #5\n" + id + "\n"
	for _, c := range []struct {
		last, next string
		ok         bool
	}{
		{first + "active\n", next + "retired\n", true},
		{first + "retired\n", next + "revoked before 57 in 1\n", true},
		{first + "retired\n", "chain-evidence-key/v2 #6\n" + id + "\nretired\n", false},
		{first + "retired\n", "chain-evidence-key/v2 #4\n" + id + "\nactive\n", false},
		{first + "retired\n", old + "active\n", false},
		{first + "revoked before 57 in 1\n", next + "revoked before 56 in 1\n", true},
		{first + "revoked before 57 in 1\n", next + "revoked\n", true},
		{first + "revoked before 57 in 1\n", next + "revoked before 58 in 1\n", false},
		{first + "revoked before 57 in 1\n", next + "revoked before 57 in 1, 3 in 2\n", false},
		{first + "revoked before 57 in 1\n", next + "retired\n", false},
		{first + "revoked\n", next + "revoked before 1 in 1\n", false},
		{old + "retired\n", old + "active\n", true},
		{old + "retired\n", "chain-evidence-key/v2 #1\n" + id + "\nretired\n", true},
		{old + "retired\n", "chain-evidence-key/v2 #2\n" + id + "\nretired\n", false},
		{old + "revoked before 7\n", "chain-evidence-key/v2 #1\n" + id + "\nrevoked before 57 in 1, 7 in 2\n", true},
		{old + "revoked before 7\n", "chain-evidence-key/v2 #1\n" + id + "\nrevoked before 57 in 1, 8 in 2\n", false},
		{old + "revoked before 7\n", "chain-evidence-key/v2 #1\n" + id + "\nactive\n", false},
		{strings.Replace(first, id, "sha256:"+strings.Repeat("00", 32), 1) + "active\n", next + "retired\n", false},
	} {
		last := must[receiptlog.Entry](t)(receiptlog.ParseEntry([]byte(c.last)))
		after := must[receiptlog.Entry](t)(receiptlog.ParseEntry([]byte(c.next)))
		if err := after.Follows(last, origin); (err == nil) != c.ok || err != nil && !errors.Is(err, receiptlog.ErrKeyState) {
			t.Errorf("%q after %q: %v", c.next, c.last, err)
		}
	}
}

func TestEntry_IsComparedWithTheKeyDocument(t *testing.T) {
	const origin = "verifier.example.com/v1/log/2"
	active := keyDocument(t).Keys[0]
	for _, c := range []struct {
		third string
		key   receipt.Key
		want  bool
	}{
		{"active", active, true},
		{"retired", active, false},
		{"revoked before 57 in 1, 100 in 2", revokedIn(t, "100 in 2, 57 in 1"), true},
		{"revoked before 57 in 1, 100 in 2", revokedIn(t, "100 in 2, 56 in 1"), false},
		{"revoked before 57 in 1, 100 in 2", revokedIn(t, "100 in 2"), false},
		{"revoked", revokedIn(t, ""), true},
		{"revoked", revokedIn(t, "100 in 2"), false},
	} {
		e := must[receiptlog.Entry](t)(receiptlog.ParseEntry([]byte("chain-evidence-key/v2 #9\n" + active.KeyID + "\n" + c.third + "\n")))
		if e.States(c.key, origin) != c.want {
			t.Errorf("%s states %+v: %v", c.third, c.key, !c.want)
		}
	}
	old := must[receiptlog.Entry](t)(receiptlog.NewKeyEntry(active.KeyID, receipt.KeyRevoked, 100))
	if !old.States(revokedIn(t, "100 in 2"), origin) || old.States(revokedIn(t, "100 in 1"), origin) || old.States(active, origin) {
		t.Error("an entry without a number is of another state")
	}
}

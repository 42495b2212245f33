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

func TestAnEntryCommitsToSignatureAndSignedBytes(t *testing.T) {
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

func TestBothPresentationsHaveOneEntry(t *testing.T) {
	envelope := must[receiptlog.Entry](t)(receiptlog.EntryOf(document(t, "base", "dsse.json")))
	if envelope != baseEntry(t) {
		t.Errorf("%+v, not %+v", envelope, baseEntry(t))
	}
}

func TestAnotherSignatureBodyOrKeyIsAnotherEntry(t *testing.T) {
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

func TestEntriesAreReadAsTheyWereWritten(t *testing.T) {
	id := keyDocument(t).KeyID
	entries := []receiptlog.Entry{baseEntry(t)}
	for _, state := range []string{receipt.KeyNext, receipt.KeyActive, receipt.KeyRetired} {
		entries = append(entries, must[receiptlog.Entry](t)(receiptlog.NewKeyEntry(id, state, 0)))
	}
	for _, before := range []int64{0, 12000, receiptlog.MaxSize} {
		entries = append(entries, must[receiptlog.Entry](t)(receiptlog.NewKeyEntry(id, receipt.KeyRevoked, before)))
	}
	for _, e := range entries {
		if got, err := receiptlog.ParseEntry(e.Bytes()); err != nil || got != e || len(e.Bytes()) > receiptlog.MaxEntry {
			t.Errorf("%q: %+v, %v", e.Bytes(), got, err)
		}
	}
}

func TestEntriesHaveOneSpelling(t *testing.T) {
	id := keyDocument(t).KeyID
	sum := strings.Repeat("A", 43) + "="
	for _, text := range []string{
		"", "\n\n\n", "x/v1\n" + id + "\n" + sum + "\n",
		"chain-evidence-receipt/v1\n" + id + "\n" + sum,
		"chain-evidence-receipt/v1\n" + id + "\n" + sum + "\n\n",
		"chain-evidence-receipt/v1\n" + strings.ToUpper(id) + "\n" + sum + "\n",
		"chain-evidence-receipt/v1\n" + id[1:] + "\n" + sum + "\n",
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
		strings.Repeat("a", 1<<20),
	} {
		if e, err := receiptlog.ParseEntry([]byte(text)); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%.80q is read as %+v, %v", text, e, err)
		}
	}
}

func TestTheEntryOfAnAnswerIsThatOfItsReceipt(t *testing.T) {
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

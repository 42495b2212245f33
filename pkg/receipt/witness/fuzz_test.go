package witness_test

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// FuzzAddCheckpoint checks that a witness, whatever it is asked, cosigns nothing but the
// checkpoints of its log that continue each other, and answers with the statuses of C2SP
// tlog-witness.
func FuzzAddCheckpoint(f *testing.F) {
	log := signer(f, origin)
	checkpoint := func(size int64, root [sha256.Size]byte) []byte {
		return must[[]byte](f)(receiptlog.Checkpoint{Origin: origin, Size: size, Root: root}.Sign(log))
	}
	empty := sha256.Sum256(nil)
	signed := [][]byte{checkpoint(0, empty), checkpoint(5, [sha256.Size]byte{1}), checkpoint(5, [sha256.Size]byte{2})}
	for _, note := range signed {
		f.Add(receiptlog.AddCheckpoint{Checkpoint: note}.Bytes())
		f.Add(receiptlog.AddCheckpoint{Old: 5, Hashes: nil, Checkpoint: note}.Bytes())
	}
	f.Add([]byte("old 0\n\n"))
	state := fresh(f)
	w := open(f, state)
	text, _, _ := bytes.Cut(signed[1], []byte("\n\n"))
	first := true
	f.Fuzz(func(t *testing.T, data []byte) {
		if first { // what it has seen at first is the log's first tree of five
			first = false
			if status, _, _ := post(w, receiptlog.AddCheckpoint{Checkpoint: signed[1]}.Bytes()); status != http.StatusOK {
				t.Fatal(status)
			}
		}
		status, answer, _ := post(w, data)
		switch status {
		case http.StatusOK:
			if !bytes.Contains(data, text) {
				t.Errorf("%q is cosigned: %s", data, answer)
			}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity:
		default:
			t.Errorf("%q is answered with %d", data, status)
		}
	})
}

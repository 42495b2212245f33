package receiptlog_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// The files are the format: what a log writes and readers keep for years.
func TestGolden_Files(t *testing.T) {
	m := sample(t, 300)
	note := m.signed(t, 0, 2)
	revoked := must[receiptlog.Entry](t)(receiptlog.NewKeyEntry(keyDocument(t).KeyID, receipt.KeyRevoked, 12000))
	active := must[receiptlog.Entry](t)(receiptlog.NewKeyEntry(keyDocument(t).KeyID, receipt.KeyActive, 0))
	numbered := must[receiptlog.Entry](t)(receiptlog.NewNumberedKeyEntry(3, revokedIn(t, "100 in 2, 57 in 1")))
	leaf := baseEntry(t).Leaf()
	tile := must[[]byte](t)(m.fetch(300)(t.Context(), "tile/0/001.p/44"))
	bundle := must[[]byte](t)(m.fetch(300)(t.Context(), "tile/entries/001.p/44"))
	add := receiptlog.AddCheckpoint{Old: 0, Checkpoint: m.signed(t)}
	// What who has both keys can have honest witnesses cosign: a tree of one entry, in a
	// generation that a policy names and the verifier does not list.
	hidden := receiptlog.Checkpoint{Origin: generation(t, 2).Name(), Size: 1, Root: leaf}
	unlisted := must[[]byte](t)(hidden.Sign(generation(t, 2)))
	for n := range 2 {
		unlisted = append(unlisted, must[[]byte](t)(hidden.Cosign(witness(t, n)))...)
	}
	three := policyText(t, "two") + "log " + generation(t, 2).Key.String() + "\nlog " + generation(t, 3).Key.String() + "\n"
	for name, want := range map[string][]byte{
		"receipt.entry":      baseEntry(t).Bytes(),
		"receipt.leaf":       []byte(hex.EncodeToString(leaf[:]) + "\n"),
		"key-active.entry":   active.Bytes(),
		"key-revoked.entry":  revoked.Bytes(),
		"key-numbered.entry": numbered.Bytes(),
		"checkpoint":         note,
		"receipt.tlog-proof": m.proof(t, place, note).Bytes(),
		"policy":             []byte(policyText(t, "two")),
		"policy-three":       []byte(three),
		"hidden.tlog-proof":  receiptlog.Proof{Index: 0, Checkpoint: unlisted}.Bytes(),
		"add-checkpoint":     add.Bytes(),
		"tile-0-001.p-44":    tile,
		"entries-001.p-44":   bundle,
	} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(readFile(t, path)), string(want)); diff != "" {
			t.Errorf("%s (-file +made):\n%s", path, diff)
		}
	}
}

func TestGolden_ProofVerifies(t *testing.T) {
	p := must[receiptlog.Policy](t)(receiptlog.ParsePolicy(readFile(t, "testdata/policy")))
	got, err := receiptlog.Verify(document(t, "base", "response.json"), keyDocument(t), readFile(t, "testdata/receipt.tlog-proof"), p)
	if err != nil {
		t.Fatal(err)
	}
	earliest, _ := got.Earliest()
	if got.Index != place || got.Size != 300 || got.Origin != origin || len(got.Cosignatures) != 2 || !earliest.Equal(at()) {
		t.Errorf("%+v", got)
	}
}

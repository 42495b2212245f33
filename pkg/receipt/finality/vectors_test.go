package finality_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
)

// The vectors are documents about the block of ../testdata/vectors/ethereum-blob, of a
// network of our own: no recorded data has the block of a receipt. Other packages test with them.
func TestVectors_AreWhatIsMade(t *testing.T) {
	text, err := os.ReadFile("../testdata/vectors/ethereum-blob/response.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := receipt.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var target finality.Block
	if target.Hash.UnmarshalText([]byte(doc.Receipt.Block.Hash)) != nil || target.Number.UnmarshalText([]byte(doc.Receipt.Block.Number)) != nil {
		t.Fatal(doc.Receipt.Block)
	}
	b := newBeacon("electra")
	b.network.ChainID = "eip155:1"
	var link finality.Link
	link.Kind = finality.LinkHeaders
	anchor := target.Hash
	for i := range 11 { // twelve confirmations, as the receipt expects
		header := childOf(anchor, finality.Root{}, uint64(target.Number)+uint64(i)+1)
		link.Headers = append([]receipt.Hex{header}, link.Headers...)
		anchor = hashOf(header)
	}
	signed := b.signed(t, anchor, target, link)
	pinned := b.pinned(target.Hash, target, finality.Link{Kind: finality.LinkSame})
	old := *b.network
	old.SecondsPerSlot = 24 * 60 * 60 / 4
	for name, value := range map[string]any{
		"signed":      signed.document,
		"pinned":      pinned.document,
		"network":     b.network,
		"old-network": &old, // the same with slots of a quarter of a day
		"checkpoints": map[string]finality.Root{"signed": signed.trust.Checkpoint, "pinned": pinned.trust.Checkpoint},
	} {
		text, err := json.MarshalIndent(value, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		path := "testdata/ethereum-blob/" + name + ".json"
		if *update {
			if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
			t.Errorf("%s (-vector +made):\n%s", name, diff)
		}
	}
	for _, s := range []sample{signed, pinned} {
		s.receipt = &doc.Receipt
		if err := s.verify(); err != nil {
			t.Error(err)
		}
	}
}

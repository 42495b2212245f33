package interop

import (
	"bytes"
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"filippo.io/torchwood"
	"github.com/transparency-dev/formats/log"
	cosigned "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/formats/proof"
	merkle "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// published is our log of so many entries, cosigned by two witnesses of ours.
func published(t *testing.T, size int) *verifier {
	t.Helper()
	policy := ourWitness(t, "w0", ourLogKey(t)) + ourWitness(t, "w1", ourLogKey(t)) + "group both all w0 w1\nquorum both\n"
	v := openVerifier(t, policy)
	v.grow("entry", size)
	v.publish()
	return v
}

// The sizes are around the width of a tile.
func TestLog_IsReadByOthers(t *testing.T) {
	v := published(t, 1)
	fetcher := must[*client.HTTPFetcher](t)(client.NewHTTPFetcher(must[*url.URL](t)(url.Parse(v.url)), http.DefaultClient))
	key := must[note.Verifier](t)(cosigned.NewVerifier(ourLogKey(t).String()))
	tracker := must[*client.LogStateTracker](t)(client.NewLogStateTracker(t.Context(), fetcher.ReadTile, nil, key, origin, client.UnilateralConsensus(fetcher.ReadCheckpoint)))
	for _, size := range []int{1, 255, 256, 257, 1000} {
		v.grow("entry", size)
		v.publish()
		v.readByTorchwood()
		v.readByTessera(fetcher, tracker)
	}
}

// readByTorchwood reads all entries and a proof with torchwood's client.
func (v *verifier) readByTorchwood() {
	v.Helper()
	policy := must[torchwood.Policy](v)(torchwood.ParsePolicy(v.policy))
	fetcher := must[*torchwood.TileFetcher](v)(torchwood.NewTileFetcher(v.url))
	reader := must[*torchwood.Client](v)(torchwood.NewClient(fetcher))
	signed := must[[]byte](v)(fetcher.ReadEndpoint(v.Context(), "checkpoint"))
	checkpoint, opened, err := torchwood.VerifyCheckpoint(signed, policy)
	if err != nil {
		v.Fatal(err)
	}
	if len(opened.Sigs) != 3 || checkpoint.Origin != origin || checkpoint.N != int64(len(v.made)) {
		v.Fatalf("%+v with %d signatures", checkpoint, len(opened.Sigs))
	}
	read := 0
	for i, data := range reader.AllEntries(v.Context(), checkpoint.Tree, 0) {
		if !bytes.Equal(data, v.made[i]) {
			v.Fatalf("entry %d is %q", i, data)
		}
		read++
	}
	if err := reader.Err(); err != nil || read != len(v.made) {
		v.Fatalf("%d of %d entries: %v", read, len(v.made), err)
	}
	for _, at := range []int{0, len(v.made) / 2, len(v.made) - 1} {
		_, inclusion, err := reader.Entry(v.Context(), checkpoint.Tree, int64(at))
		if err != nil {
			v.Fatalf("entry %d of %d: %v", at, len(v.made), err)
		}
		leaf := receiptlog.Leaf(v.made[at])
		theirs := torchwood.FormatProof(int64(at), inclusion, signed)
		if ours := v.get(v.url + "proof/" + hex.EncodeToString(leaf[:])); !bytes.Equal(ours, theirs) {
			v.Errorf("our proof of entry %d of %d is\n%s\nand torchwood's\n%s", at, len(v.made), ours, theirs)
		}
	}
}

// readByTessera proves with tessera's client that the log continues what the tracker has
// seen of it, and that entries are in it.
func (v *verifier) readByTessera(fetcher *client.HTTPFetcher, tracker *client.LogStateTracker) {
	v.Helper()
	ctx, hasher, before := context.Background(), rfc6962.DefaultHasher, tracker.Latest()
	_, consistency, _, err := tracker.Update(ctx)
	if err != nil {
		v.Fatalf("from %d entries to %d: %v", before.Size, len(v.made), err)
	}
	now := tracker.Latest()
	if now.Size != uint64(len(v.made)) {
		v.Fatalf("%d entries, want %d", now.Size, len(v.made))
	}
	if before.Size < now.Size {
		if err := merkle.VerifyConsistency(hasher, before.Size, now.Size, consistency, before.Hash, now.Hash); err != nil {
			v.Error(err)
		}
	}
	builder := must[*client.ProofBuilder](v)(client.NewProofBuilder(ctx, now.Size, fetcher.ReadTile))
	for _, at := range []uint64{0, now.Size / 2, now.Size - 1} {
		inclusion := must[[][]byte](v)(builder.InclusionProof(ctx, at))
		if err := merkle.VerifyInclusion(hasher, at, now.Size, hasher.HashLeaf(v.made[at]), inclusion, now.Hash); err != nil {
			v.Errorf("entry %d of %d: %v", at, now.Size, err)
		}
	}
	bundle := must[api.EntryBundle](v)(client.GetEntryBundle(ctx, fetcher.ReadEntryBundle, (now.Size-1)/256, now.Size))
	if last := bundle.Entries[len(bundle.Entries)-1]; !bytes.Equal(last, v.made[now.Size-1]) {
		v.Errorf("the last of %d entries is %q", now.Size, last)
	}
}

func TestTiles_HaveTheSameNames(t *testing.T) {
	for level := receiptlog.EntriesLevel; level < 8; level++ {
		for _, at := range []int64{0, 1, 999, 1000, 67_000, 1_234_067, 1 << 40} {
			for _, width := range []int{1, 255, 256} {
				ours := receiptlog.Tile{Level: level, Index: at, Width: width}
				theirs := tlog.Tile{H: torchwood.TileHeight, L: level, N: at, W: width}
				if ours.Path() != torchwood.TilePath(theirs) {
					t.Errorf("our name of %+v is %s, and torchwood's %s", ours, ours.Path(), torchwood.TilePath(theirs))
				}
				if read, err := torchwood.ParseTilePath(ours.Path()); err != nil || read != theirs {
					t.Errorf("torchwood reads %s as %+v, %v", ours.Path(), read, err)
				}
			}
		}
	}
}

// What we sign and cosign is read by code of others, and so is the policy that we publish.
func TestProof_IsReadByOthers(t *testing.T) {
	v := published(t, 1000)
	leaf := receiptlog.Leaf(v.made[3])
	served := v.get(v.url + "proof/" + hex.EncodeToString(leaf[:]))
	directory := must[receiptlog.Directory](t)(receiptlog.ParseDirectory(v.get(v.site + receiptlog.DirectoryPath)))
	policy := must[torchwood.Policy](t)(torchwood.ParsePolicy([]byte(directory.Policy)))
	if err := torchwood.VerifyProof(policy, leaf, served); err != nil {
		t.Error(err)
	}
	if err := torchwood.VerifyProof(policy, tlog.RecordHash([]byte("another")), served); err == nil {
		t.Error("the proof of another entry verifies")
	}
	var parsed proof.TLogProof
	if err := parsed.Unmarshal(served); err != nil || parsed.Index != 3 || !bytes.Equal(parsed.Marshal(), served) {
		t.Errorf("index %d, %v", parsed.Index, err)
	}
	ours := must[receiptlog.Policy](t)(receiptlog.ParsePolicy([]byte(directory.Policy)))
	var witnesses []note.Verifier
	for _, w := range ours.Witnesses {
		witnesses = append(witnesses, must[note.Verifier](t)(cosigned.NewVerifierForCosignatureV1(w.Key.String())))
	}
	key := must[note.Verifier](t)(cosigned.NewVerifier(ours.Logs[0].Key.String()))
	checkpoint, rest, opened, err := log.ParseCheckpoint(parsed.Checkpoint, origin, key, witnesses...)
	if err != nil || checkpoint.Size != 1000 || len(rest) != 0 || len(opened.Sigs) != 3 {
		t.Fatalf("%+v, %q, %v, %v", checkpoint, rest, opened, err)
	}
	for _, sig := range opened.Sigs[1:] {
		if at, err := cosigned.CoSigV1Timestamp(sig); err != nil || at.IsZero() {
			t.Errorf("time of a cosignature: %v, %v", at, err)
		}
	}
	group := must[tessera.WitnessGroup](t)(tessera.NewWitnessGroupFromPolicy([]byte(directory.Policy)))
	if !group.Satisfied(parsed.Checkpoint) || group.N != 2 {
		t.Errorf("tessera finds the policy unmet: %+v", group)
	}
	signedOnly, _, _ := bytes.Cut(parsed.Checkpoint, []byte("— w1.example"))
	if group.Satisfied(signedOnly) {
		t.Error("tessera finds the policy met by one witness")
	}
}

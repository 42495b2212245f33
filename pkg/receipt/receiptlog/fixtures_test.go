package receiptlog_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// go test ./receiptlog -run TestGolden_Files -update
var update = flag.Bool("update", false, "write the golden files anew")

const origin = "verifier.example.com/v1/log/1"

// seeded returns the key of a seed that is the hash of a name.
func seeded(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// at is when the test's witnesses cosign.
func at() time.Time { return time.Date(2026, 11, 22, 3, 45, 9, 0, time.UTC) }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func logSigner(t testing.TB) *receiptlog.Signer {
	return must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(origin, seeded("log")))
}

func witness(t testing.TB, n int) *receiptlog.Signer {
	name := fmt.Sprintf("witness%d.example.com", n)
	return must[*receiptlog.Signer](t)(receiptlog.NewWitnessSigner(name, seeded(name), at))
}

// policyText is a policy with the test's log and three witnesses.
func policyText(t testing.TB, quorum string) string {
	text := fmt.Sprintf("log %s https://verifier.example.com/v1/log/1\n", logSigner(t).Key)
	for n := range 3 {
		text += fmt.Sprintf("witness w%d %s\n", n, witness(t, n).Key)
	}
	return text + "group two 2 w0 w1 w2\nquorum " + quorum + "\n"
}

func policy(t testing.TB, quorum string) receiptlog.Policy {
	t.Helper()
	return must[receiptlog.Policy](t)(receiptlog.ParsePolicy([]byte(policyText(t, quorum))))
}

// memory is a log in memory.
type memory struct {
	entries [][]byte
	hashes  []tlog.Hash
}

func (m *memory) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index >= int64(len(m.hashes)) {
			return nil, fmt.Errorf("hash %d of %d", index, len(m.hashes))
		}
		out[i] = m.hashes[index]
	}
	return out, nil
}

func (m *memory) add(t testing.TB, entry []byte) {
	hashes := must[[]tlog.Hash](t)(tlog.StoredHashes(int64(len(m.entries)), entry, m))
	m.hashes, m.entries = append(m.hashes, hashes...), append(m.entries, entry)
}

func (m *memory) checkpoint(t testing.TB, size int64) receiptlog.Checkpoint {
	return receiptlog.Checkpoint{Origin: origin, Size: size, Root: must[tlog.Hash](t)(tlog.TreeHash(size, m))}
}

// signed returns the newest checkpoint, signed by the log and cosigned.
func (m *memory) signed(t testing.TB, witnesses ...int) []byte {
	c := m.checkpoint(t, int64(len(m.entries)))
	note := must[[]byte](t)(c.Sign(logSigner(t)))
	for _, n := range witnesses {
		note = append(note, must[[]byte](t)(c.Cosign(witness(t, n)))...)
	}
	return note
}

func (m *memory) proof(t testing.TB, index int64, note []byte) receiptlog.Proof {
	hashes := must[tlog.RecordProof](t)(tlog.ProveRecord(int64(len(m.entries)), index, m))
	return receiptlog.Proof{Index: index, Hashes: hashes, Checkpoint: note}
}

// fetch serves tiles and bundles as they are at a size.
func (m *memory) fetch(size int64) receiptlog.Fetch {
	return func(_ context.Context, path string) ([]byte, error) {
		tile, err := receiptlog.ParseTile(path)
		if err != nil {
			return nil, err
		}
		if !tile.Within(size) {
			return nil, receiptlog.ErrNoTile
		}
		if tile.Level == receiptlog.EntriesLevel {
			var bundle []byte
			for i := range int64(tile.Width) {
				bundle = receiptlog.AppendBundled(bundle, m.entries[tile.Index*256+i])
			}
			return bundle, nil
		}
		return tlog.ReadTileData(tlog.Tile{H: 8, L: tile.Level, N: tile.Index, W: tile.Width}, m)
	}
}

// filler is an entry of a receipt that nobody sold.
func filler(t testing.TB, n int) []byte {
	signature := make([]byte, ed25519.SignatureSize)
	e := must[receiptlog.Entry](t)(receiptlog.NewReceiptEntry("sha256:"+strings.Repeat("0a", 32), signature, fmt.Append(nil, n)))
	return e.Bytes()
}

// place is the index of the base vector's entry in the log that sample returns.
const place = 7

func sample(t testing.TB, size int) *memory {
	m := &memory{}
	for n := range size {
		if n == place {
			m.add(t, baseEntry(t).Bytes())
		} else {
			m.add(t, filler(t, n))
		}
	}
	return m
}

func readFile(t testing.TB, elements ...string) []byte {
	t.Helper()
	return must[[]byte](t)(os.ReadFile(filepath.Join(elements...)))
}

// document reads a file of a golden vector of package receipt.
func document(t testing.TB, vector, file string) receipt.Document {
	t.Helper()
	return must[receipt.Document](t)(receipt.Parse(readFile(t, "../testdata/vectors", vector, file)))
}

func baseEntry(t testing.TB) receiptlog.Entry {
	return must[receiptlog.Entry](t)(receiptlog.EntryOf(document(t, "base", "response.json")))
}

func keyDocument(t testing.TB) receipt.KeyDocument {
	return must[receipt.KeyDocument](t)(receipt.ParseKeyDocument(readFile(t, "../testdata/vectors/base/key.json")))
}

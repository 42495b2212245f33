package receiptlog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// seed adds the golden files as seeds.
func seed(f *testing.F) {
	f.Helper()
	files := must[[]string](f)(filepath.Glob("testdata/*"))
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			f.Add(readFile(f, name))
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := receiptlog.ParseEntry(data); err == nil && !bytes.Equal(e.Bytes(), data) {
			t.Errorf("%q is read as %q", data, e.Bytes())
		}
	})
}

func FuzzParseProof(f *testing.F) {
	seed(f)
	m := sample(f, 300)
	c := m.checkpoint(f, 300)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := receiptlog.ParseProof(data)
		if err != nil {
			return
		}
		if !bytes.Equal(p.Bytes(), data) {
			t.Errorf("%q is read as %q", data, p.Bytes())
		}
		leaf := baseEntry(t).Leaf()
		if err := c.CheckInclusion(p.Index, leaf, p.Hashes); err == nil && p.Index != place {
			t.Errorf("proven at %d", p.Index)
		}
	})
}

func FuzzParseAddCheckpoint(f *testing.F) {
	seed(f)
	m := sample(f, 20)
	newer, older := m.checkpoint(f, 20), m.checkpoint(f, 9)
	older.Root[0] ^= 1
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := receiptlog.ParseAddCheckpoint(data)
		if err != nil {
			return
		}
		if !bytes.Equal(a.Bytes(), data) {
			t.Errorf("%q is read as %q", data, a.Bytes())
		}
		if newer.CheckConsistency(older, a.Hashes) == nil {
			t.Error("a fork passes")
		}
	})
}

// FuzzOpen checks that a policy accepts the checkpoint that was signed and no other.
func FuzzOpen(f *testing.F) {
	seed(f)
	p := policy(f, "two")
	m := sample(f, 300)
	want, first := m.checkpoint(f, 300), m.signed(f, 0, 1, 2)
	f.Add(first)
	f.Fuzz(func(t *testing.T, data []byte) {
		if w, err := p.Open(data); err == nil && w.Checkpoint != want {
			t.Errorf("%q is accepted", data)
		}
	})
}

func FuzzParsePolicy(f *testing.F) {
	seed(f)
	signed := sample(f, 9).signed(f, 0, 1)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := receiptlog.ParsePolicy(data)
		if err != nil {
			return
		}
		if len(p.Logs) > 64 || len(p.Witnesses) > 64 {
			t.Errorf("%d logs, %d witnesses", len(p.Logs), len(p.Witnesses))
		}
		if w, err := p.Open(signed); err == nil && len(w.Cosignatures) == 0 && !p.Unwitnessed() {
			t.Errorf("%q accepts what no witness saw", data)
		}
	})
}

func FuzzParseTile(f *testing.F) {
	for _, path := range []string{"tile/0/000", "tile/entries/x001/234.p/7", "tile/63/x999/x999/999"} {
		f.Add(path, int64(70000))
	}
	f.Fuzz(func(t *testing.T, path string, size int64) {
		tile, err := receiptlog.ParseTile(path)
		if err != nil {
			return
		}
		if tile.Path() != path {
			t.Errorf("%q is read as %q", path, tile.Path())
		}
		if level := max(tile.Level, 0); tile.Within(size) && (level > 6 || tile.Index >= size>>(8*level)) {
			t.Errorf("%s at %d", path, size)
		}
	})
}

func FuzzParseBundle(f *testing.F) {
	f.Add(readFile(f, "testdata/entries-001.p-44"), 44)
	f.Fuzz(func(t *testing.T, data []byte, width int) {
		entries, err := receiptlog.ParseBundle(data, width)
		if err != nil {
			return
		}
		var again []byte
		for _, entry := range entries {
			again = receiptlog.AppendBundled(again, entry)
		}
		if len(entries) != width || !bytes.Equal(again, data) {
			t.Errorf("%d entries of %q", len(entries), data)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add(logSigner(f).Key.String())
	f.Add(witness(f, 0).Key.String())
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (receiptlog.Key, error){receiptlog.ParseLogKey, receiptlog.ParseWitnessKey} {
			if k, err := parse(text); err == nil && k.String() != text {
				t.Errorf("%q is read as %q", text, k)
			}
		}
	})
}

// FuzzEntryOfAnswer checks that what receipt.Parse reads as signed has the entry of that.
func FuzzEntryOfAnswer(f *testing.F) {
	f.Add(readFile(f, "../testdata/vectors/base/response.json"))
	f.Add([]byte(`{"receipt":{"a":"<\u003c"},"signature":{"keyId":"k","payloadType":"t","value":"AA=="}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := receiptlog.EntryOfAnswer(data)
		if err != nil {
			return
		}
		doc, err := receipt.Parse(data)
		if err != nil {
			return
		}
		written, err := receipt.Response{Receipt: doc.Body, Signature: doc.Signature, Proof: doc.Proof}.JSON()
		if err != nil || !bytes.Equal(written, data) {
			return // another spelling than that of an answer
		}
		if want, err := receiptlog.EntryOf(doc); err != nil || e != want {
			t.Errorf("%q has the entry %+v, and what was signed %+v, %v", data, e, want, err)
		}
	})
}

// FuzzCosignature checks that no answer of a witness is taken for a cosignature that is
// not the witness's line.
func FuzzCosignature(f *testing.F) {
	c := sample(f, 20).checkpoint(f, 20)
	line := must[[]byte](f)(c.Cosign(witness(f, 0)))
	f.Add(line)
	f.Add(append([]byte("— other AAAA\n"), line...))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, ok := c.Cosignature(data, witness(t, 0).Key); ok && !bytes.Equal(got, line) {
			t.Errorf("%q is taken for a cosignature", got)
		}
	})
}

package receiptlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

func TestTile_Paths(t *testing.T) {
	for path, want := range map[string]receiptlog.Tile{
		"tile/0/000":                 {Level: 0, Index: 0, Width: 256},
		"tile/0/273.p/112":           {Level: 0, Index: 273, Width: 112},
		"tile/2/x001/x234/067":       {Level: 2, Index: 1234067, Width: 256},
		"tile/63/000.p/1":            {Level: 63, Index: 0, Width: 1},
		"tile/entries/x001/x234/067": {Level: receiptlog.EntriesLevel, Index: 1234067, Width: 256},
		"tile/entries/000.p/255":     {Level: receiptlog.EntriesLevel, Index: 0, Width: 255},
	} {
		if got, err := receiptlog.ParseTile(path); err != nil || got != want || want.Path() != path {
			t.Errorf("%s: %+v, %v; path %s", path, got, err, want.Path())
		}
	}
	for _, path := range []string{
		"", "tile", "tile/", "tile/0", "tile/0/", "/tile/0/000", "tile/00/000", "tile/64/000", "tile/-1/000", "tile/+1/000", "tile/data/000", "tile/8/0/000",
		"tile/0/0", "tile/0/0000", "tile/0/x000/000", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/", "tile/0/000.p", "tile/0/000.p/1/",
		"tile/entries/entries/000", "tile/0/001/002", "tile/0/x999/x999/x999/x999/x999/x999/x999/999", "tile/0/../000", "tile/0/000?x", "tile/0/" + string(bytes.Repeat([]byte("x001/"), 1000)) + "001",
	} {
		if got, err := receiptlog.ParseTile(path); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%.60q is read as %+v, %v", path, got, err)
		}
	}
}

func TestTile_PastTheSizeIsNotInTheLog(t *testing.T) {
	for _, test := range []struct {
		path string
		size int64
		want bool
	}{
		{"tile/0/000.p/1", 0, false},
		{"tile/0/000.p/1", 1, true},
		{"tile/0/000", 255, false},
		{"tile/0/000", 256, true},
		{"tile/1/000.p/1", 255, false},
		{"tile/1/000.p/1", 256, true},
		{"tile/0/273.p/112", 70000, true},
		{"tile/0/273.p/113", 70000, false},
		{"tile/1/001.p/17", 70000, true},
		{"tile/1/001.p/18", 70000, false},
		{"tile/2/000.p/1", 70000, true},
		{"tile/2/000.p/2", 70000, false},
		{"tile/entries/273.p/112", 70000, true},
		{"tile/entries/274.p/1", 70000, false},
		{"tile/63/000.p/1", receiptlog.MaxSize, false},
		{"tile/0/x999/x999/x999/x999/x999/999", receiptlog.MaxSize, false},
		{"tile/0/000.p/1", -1, false},
	} {
		tile := must[receiptlog.Tile](t)(receiptlog.ParseTile(test.path))
		if got := tile.Within(test.size); got != test.want {
			t.Errorf("%s at %d: %v", test.path, test.size, got)
		}
	}
}

// C2SP's example: 70,000 entries.
func TestTile_ThoseOfATree(t *testing.T) {
	var partial []string
	full := map[int]int{}
	for tile := range receiptlog.Tiles(0, 70000) {
		if !tile.Within(70000) {
			t.Errorf("%s is not in the log", tile.Path())
		}
		if tile.Width == 256 {
			full[tile.Level]++
		} else {
			partial = append(partial, tile.Path())
		}
	}
	if want := []string{"tile/entries/273.p/112", "tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1"}; !slices.Equal(partial, want) {
		t.Errorf("partial: %v", partial)
	}
	if fmt.Sprint(full) != "map[-1:273 0:273 1:1]" {
		t.Errorf("full: %v", full)
	}
}

func TestTile_NewOnesAreSumdbs(t *testing.T) {
	sizes := []int64{0, 1, 2, 255, 256, 257, 511, 512, 513, 65535, 65536, 65537, 70000, 1 << 24, 1<<24 + 70000}
	for _, size := range sizes {
		for _, old := range sizes {
			if old > size || size-old > 1<<17 {
				continue
			}
			var got, want []string
			for tile := range receiptlog.Tiles(old, size) {
				if tile.Level >= 0 {
					got = append(got, tile.Path())
				}
			}
			for _, tile := range tlog.NewTiles(8, old, size) {
				want = append(want, receiptlog.Tile{Level: tile.L, Index: tile.N, Width: tile.W}.Path())
			}
			if !slices.Equal(got, want) {
				t.Errorf("from %d to %d: %d tiles, not %d", old, size, len(got), len(want))
			}
		}
	}
	for range receiptlog.Tiles(0, receiptlog.MaxSize) {
		break // one by one: a size that a stranger names costs nothing
	}
}

func TestTile_ProvesWhatTheTreeProves(t *testing.T) {
	m := sample(t, 600)
	for _, size := range []int64{1, 2, 255, 256, 257, 511, 512, 513, 600} {
		c := m.checkpoint(t, size)
		tree := must[*receiptlog.Tree](t)(receiptlog.NewTree(c, m.fetch(size)))
		for _, index := range []int64{0, 7, 254, 255, 256, 512, size - 1} {
			if index >= size {
				continue
			}
			hashes, err := tree.Prove(t.Context(), index)
			if err != nil {
				t.Fatalf("%d of %d: %v", index, size, err)
			}
			if err := c.CheckInclusion(index, receiptlog.Leaf(m.entries[index]), hashes); err != nil {
				t.Errorf("%d of %d: %v", index, size, err)
			}
		}
		for bundle := int64(0); bundle*256 < size; bundle++ {
			entries, err := tree.Entries(t.Context(), bundle)
			if err != nil || !slices.EqualFunc(entries, m.entries[bundle*256:min(size, bundle*256+256)], bytes.Equal) {
				t.Errorf("bundle %d of %d: %d entries, %v", bundle, size, len(entries), err)
			}
		}
		for _, old := range []int64{0, 1, 200, 256, 300, size} {
			if old > size {
				continue
			}
			if err := tree.Continues(t.Context(), m.checkpoint(t, old)); err != nil {
				t.Errorf("%d after %d: %v", size, old, err)
			}
			if before := m.checkpoint(t, old); old > 0 {
				before.Root[0] ^= 1
				if err := tree.Continues(t.Context(), before); !errors.Is(err, receiptlog.ErrConsistency) {
					t.Errorf("%d after another tree of %d: %v", size, old, err)
				}
			}
		}
		if _, err := tree.Prove(t.Context(), size); !errors.Is(err, receiptlog.ErrInclusion) {
			t.Errorf("entry %d of %d: %v", size, size, err)
		}
		if _, err := tree.Entries(t.Context(), 3); !errors.Is(err, receiptlog.ErrInclusion) {
			t.Errorf("bundle 3 of %d: %v", size, err)
		}
	}
}

func TestNewTree_RefusesASizeThatNoLogHas(t *testing.T) {
	fetch := func(context.Context, string) ([]byte, error) { return nil, nil }
	for _, size := range []int64{-1, receiptlog.MaxSize + 1} {
		if _, err := receiptlog.NewTree(receiptlog.Checkpoint{Size: size}, fetch); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%d entries: %v", size, err)
		}
	}
}

func TestTile_AnEmptyTreeHasNone(t *testing.T) {
	m := &memory{}
	tree := must[*receiptlog.Tree](t)(receiptlog.NewTree(m.checkpoint(t, 0), m.fetch(0)))
	if _, err := tree.Prove(t.Context(), 0); !errors.Is(err, receiptlog.ErrInclusion) {
		t.Error(err)
	}
	if _, err := tree.Entries(t.Context(), 0); !errors.Is(err, receiptlog.ErrInclusion) {
		t.Error(err)
	}
	if err := tree.Continues(t.Context(), m.checkpoint(t, 0)); err != nil {
		t.Error(err)
	}
}

func TestTile_APartialOneThatIsGoneIsReadFromTheFull(t *testing.T) {
	m := sample(t, 512)
	fetch := func(ctx context.Context, path string) ([]byte, error) {
		if tile, _ := receiptlog.ParseTile(path); tile.Width < 256 && tile.Level < 1 {
			return nil, receiptlog.ErrNoTile
		}
		return m.fetch(512)(ctx, path)
	}
	tree := must[*receiptlog.Tree](t)(receiptlog.NewTree(m.checkpoint(t, 300), fetch))
	if entries, err := tree.Entries(t.Context(), 1); err != nil || len(entries) != 44 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func TestEntries_AsksOnceForAFullTileThatIsGone(t *testing.T) {
	m, asked := sample(t, 512), 0
	fetch := func(ctx context.Context, path string) ([]byte, error) {
		if tile, _ := receiptlog.ParseTile(path); tile.Level == receiptlog.EntriesLevel {
			asked++
			return nil, receiptlog.ErrNoTile
		}
		return m.fetch(512)(ctx, path)
	}
	tree := must[*receiptlog.Tree](t)(receiptlog.NewTree(m.checkpoint(t, 512), fetch))
	if _, err := tree.Entries(t.Context(), 1); !errors.Is(err, receiptlog.ErrNoTile) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestTile_ALogThatServesSomethingElseIsFound(t *testing.T) {
	m := sample(t, 600)
	for name, change := range map[string]func(receiptlog.Tile, []byte) ([]byte, error){
		"a changed hash":   func(tile receiptlog.Tile, data []byte) ([]byte, error) { return flip(data, tile.Level == 0), nil },
		"a changed parent": func(tile receiptlog.Tile, data []byte) ([]byte, error) { return flip(data, tile.Level == 1), nil },
		"a changed entry":  func(tile receiptlog.Tile, data []byte) ([]byte, error) { return flip(data, tile.Level < 0), nil },
		"a short tile":     func(_ receiptlog.Tile, data []byte) ([]byte, error) { return data[1:], nil },
		"a long tile":      func(_ receiptlog.Tile, data []byte) ([]byte, error) { return append(data, data...), nil },
		"nothing":          func(receiptlog.Tile, []byte) ([]byte, error) { return nil, nil },
		"an error":         func(receiptlog.Tile, []byte) ([]byte, error) { return nil, errors.New("reset by peer") },
		"no tile at all":   func(receiptlog.Tile, []byte) ([]byte, error) { return nil, receiptlog.ErrNoTile },
		"an entry too long": func(tile receiptlog.Tile, data []byte) ([]byte, error) {
			return append([]byte{0xff, 0xff}, data...), nil
		},
	} {
		fetch := func(ctx context.Context, path string) ([]byte, error) {
			data, err := m.fetch(600)(ctx, path)
			if err != nil {
				return nil, err
			}
			return change(must[receiptlog.Tile](t)(receiptlog.ParseTile(path)), data)
		}
		tree := must[*receiptlog.Tree](t)(receiptlog.NewTree(m.checkpoint(t, 600), fetch))
		if entries, err := tree.Entries(t.Context(), 0); err == nil {
			t.Errorf("%s: %d entries", name, len(entries))
		}
	}
}

// flip changes the last byte when wanted.
func flip(data []byte, wanted bool) []byte {
	data = bytes.Clone(data)
	if wanted {
		data[len(data)-1] ^= 1
	}
	return data
}

func TestBundle_IsBounded(t *testing.T) {
	entry := filler(t, 1)
	two := receiptlog.AppendBundled(receiptlog.AppendBundled(nil, entry), entry)
	if got, err := receiptlog.ParseBundle(two, 2); err != nil || len(got) != 2 || !bytes.Equal(got[1], entry) {
		t.Errorf("%d, %v", len(got), err)
	}
	for name, test := range map[string]struct {
		data  []byte
		width int
	}{
		"fewer": {two, 3}, "more": {two, 1}, "none": {nil, 1}, "width 0": {two, 0}, "width -1": {two, -1}, "width 257": {two, 257},
		"half a length": {append(bytes.Clone(two), 0), 3}, "empty entry": {append(bytes.Clone(two), 0, 0), 3}, "cut off": {two[:len(two)-1], 2},
		"long entry": {receiptlog.AppendBundled(nil, make([]byte, receiptlog.MaxEntry+1)), 1}, "too large": {make([]byte, receiptlog.MaxBundle+1), 256},
	} {
		if got, err := receiptlog.ParseBundle(test.data, test.width); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%s: %d, %v", name, len(got), err)
		}
	}
}

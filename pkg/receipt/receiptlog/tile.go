package receiptlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	// BundleSize is the number of entries in a full bundle.
	BundleSize = tileWidth
	// EntriesLevel is the Level of a bundle of entries.
	EntriesLevel = -1
	// MaxTile is the size in bytes of a full tile.
	MaxTile = tileWidth * tlog.HashSize
	// MaxBundle is the size in bytes of the largest bundle of entries.
	MaxBundle = tileWidth * (2 + MaxEntry)
)

// Tile names a tile of hashes or a bundle of entries (C2SP tlog-tiles).
type Tile struct {
	Level int   // from 0 to 63, or EntriesLevel
	Index int64 // within the level, from 0
	Width int   // hashes or entries: 1 to 256; less than 256 is a partial tile
}

// Path returns the tile's path below the log's prefix: tile/<L>/<N>[.p/<W>], or
// tile/entries/<N>[.p/<W>].
func (t Tile) Path() string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(t.sumdb().Path(), "tile/"), "/")
	if entries, found := strings.CutPrefix(rest, "data/"); found {
		return "tile/entries/" + entries
	}
	return "tile/" + rest
}

// sumdb returns the same tile as package tlog has it, which also says the height.
func (t Tile) sumdb() tlog.Tile { return tlog.Tile{H: tileHeight, L: t.Level, N: t.Index, W: t.Width} }

// ParseTile reads a tile's path in its one spelling. ErrMalformed.
func ParseTile(path string) (Tile, error) {
	rest, found := strings.CutPrefix(path, "tile/")
	if !found || len(path) > 64 {
		return Tile{}, malformed("not the path of a tile")
	}
	if entries, found := strings.CutPrefix(rest, "entries/"); found {
		rest = "data/" + entries
	}
	parsed, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", tileHeight, rest))
	t := Tile{Level: parsed.L, Index: parsed.N, Width: parsed.W}
	if err != nil || t.Level > 63 || t.Path() != path {
		return Tile{}, malformed("not the path of a tile")
	}
	return t, nil
}

// Within reports whether a log of so many entries has all that the tile holds.
func (t Tile) Within(size int64) bool {
	if size < 0 || size > MaxSize || t.Level < EntriesLevel || t.Index < 0 || t.Index > MaxSize || t.Width < 1 ||
		t.Width > tileWidth {
		return false
	}
	return t.Index*tileWidth+int64(t.Width) <= size>>(tileHeight*max(t.Level, 0))
}

// Tiles returns, one by one, the tiles and bundles that a log has at a size and did not
// have in this width at an older one: bundles first, then the levels upwards. There are
// about two for every 256 entries between the sizes.
func Tiles(old, size int64) iter.Seq[Tile] {
	return func(yield func(Tile) bool) {
		for level := EntriesLevel; level < 8; level++ {
			shift := tileHeight * max(level, 0)
			from, to := old>>shift, size>>shift
			for at := from / tileWidth * tileWidth; from < to && at < to; at += tileWidth {
				if !yield(Tile{Level: level, Index: at / tileWidth, Width: int(min(tileWidth, to-at))}) {
					return
				}
			}
		}
	}
}

// AppendBundled appends an entry to a bundle: its length in two bytes, big endian, and its bytes.
func AppendBundled(bundle, entry []byte) []byte {
	return append(binary.BigEndian.AppendUint16(bundle, uint16(len(entry))), entry...)
}

// ParseBundle returns the entries of a bundle, of which there must be exactly width. It does
// not look into them. ErrMalformed.
func ParseBundle(data []byte, width int) ([][]byte, error) {
	if width < 1 || width > tileWidth || len(data) > MaxBundle {
		return nil, malformed("a bundle of %d bytes for %d entries", len(data), width)
	}
	var entries [][]byte
	for len(entries) < width {
		if len(data) < 2 {
			return nil, malformed("a bundle of %d entries, not %d", len(entries), width)
		}
		n := int(binary.BigEndian.Uint16(data))
		if data = data[2:]; n == 0 || n > MaxEntry || n > len(data) {
			return nil, malformed("a bundle with an entry of %d bytes", n)
		}
		entries, data = append(entries, data[:n:n]), data[n:]
	}
	if len(data) > 0 {
		return nil, malformed("a bundle of more than %d entries", width)
	}
	return entries, nil
}

// Fetch returns what a log serves at a path below its prefix, and ErrNoTile when there is
// nothing. It must bound what it reads; no tile or bundle is larger than MaxBundle.
type Fetch func(ctx context.Context, path string) ([]byte, error)

// ErrNoTile is a tile that the log does not serve.
var ErrNoTile = errors.New("no such tile")

// Tree reads the tree of a checkpoint from the log's tiles. Every hash and entry that it returns
// has been checked against the checkpoint's root. What does not lead to the root is an error.
type Tree struct {
	checkpoint Checkpoint
	fetch      Fetch
}

// NewTree returns the tree of a checkpoint, whose signatures the caller must have checked. ErrMalformed.
func NewTree(c Checkpoint, fetch Fetch) (*Tree, error) {
	if c.Size < 0 || c.Size > MaxSize || fetch == nil {
		return nil, malformed("a tree of %d entries", c.Size)
	}
	return &Tree{checkpoint: c, fetch: fetch}, nil
}

// hashes returns a reader of the tree's hashes, which fetches tiles with ctx.
func (t *Tree) hashes(ctx context.Context) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: t.checkpoint.Size, Hash: t.checkpoint.Root}, tiles{ctx, t})
}

// Prove returns the proof that the entry with an index is in the tree. It returns ErrInclusion
// when the tree has no such index.
func (t *Tree) Prove(ctx context.Context, index int64) ([]tlog.Hash, error) {
	if index < 0 || index >= t.checkpoint.Size {
		return nil, fmt.Errorf("%w: index %d of %d entries", ErrInclusion, index, t.checkpoint.Size)
	}
	hashes, err := tlog.ProveRecord(t.checkpoint.Size, index, t.hashes(ctx))
	if err != nil {
		return nil, fmt.Errorf("prove entry %d: %w", index, err)
	}
	return hashes, nil
}

// Continues checks that the tree begins with that of an older checkpoint of the same log. It
// returns ErrConsistency when it does not.
func (t *Tree) Continues(ctx context.Context, old Checkpoint) error {
	if old.Size == 0 || old.Size >= t.checkpoint.Size || old.Origin != t.checkpoint.Origin {
		return t.checkpoint.CheckConsistency(old, nil)
	}
	root, err := tlog.TreeHash(old.Size, t.hashes(ctx))
	if err != nil {
		return fmt.Errorf("root at %d entries: %w", old.Size, err)
	}
	if root != old.Root {
		return fmt.Errorf("%w: the first %d entries have another root", ErrConsistency, old.Size)
	}
	return nil
}

// Entries returns the entries of the bundle with a Tile.Index, checked against the tree: at most
// 256, from index 256*bundle on. It returns ErrInclusion when there is no such bundle, or when an
// entry does not match the tree, and other errors for tiles that are not of the tree.
func (t *Tree) Entries(ctx context.Context, bundle int64) ([][]byte, error) {
	first := bundle * tileWidth
	if bundle < 0 || bundle > MaxSize/tileWidth || first >= t.checkpoint.Size {
		return nil, fmt.Errorf("%w: bundle %d of %d entries", ErrInclusion, bundle, t.checkpoint.Size)
	}
	named := Tile{Level: EntriesLevel, Index: bundle, Width: int(min(tileWidth, t.checkpoint.Size-first))}
	data, err := t.get(ctx, named, ParseBundle)
	if err != nil {
		return nil, err
	}
	indexes := make([]int64, named.Width)
	for i := range indexes {
		indexes[i] = tlog.StoredHashIndex(0, first+int64(i))
	}
	leaves, err := t.hashes(ctx).ReadHashes(indexes)
	if err != nil {
		return nil, fmt.Errorf("leaves of bundle %d: %w", bundle, err)
	}
	for i, entry := range data {
		if Leaf(entry) != leaves[i] {
			return nil, fmt.Errorf("%w: what is served as entry %d", ErrInclusion, first+int64(i))
		}
	}
	return data, nil
}

// get fetches a tile and splits it into its hashes or entries. Where a partial tile is
// not served, it reads the beginning of the full one, because a log may drop the partial.
func (t *Tree) get(ctx context.Context, named Tile, split func([]byte, int) ([][]byte, error)) ([][]byte, error) {
	data, err := t.fetch(ctx, named.Path())
	width := named.Width
	if errors.Is(err, ErrNoTile) && width < tileWidth {
		width = tileWidth
		data, err = t.fetch(ctx, Tile{Level: named.Level, Index: named.Index, Width: width}.Path())
	}
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", named.Path(), err)
	}
	parts, err := split(data, width)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", named.Path(), err)
	}
	return parts[:named.Width], nil
}

func splitTile(data []byte, width int) ([][]byte, error) {
	if len(data) != width*tlog.HashSize {
		return nil, malformed("a tile of %d bytes for %d hashes", len(data), width)
	}
	return slices.Collect(slices.Chunk(data, tlog.HashSize)), nil
}

// TileRoot returns the root of a full tile, which is a hash of the tile above it. ErrMalformed.
func TileRoot(tile []byte) (tlog.Hash, error) {
	if len(tile) != MaxTile {
		return tlog.Hash{}, malformed("a full tile of %d bytes", len(tile))
	}
	hashes := make([]tlog.Hash, 0, tileWidth)
	for hash := range slices.Chunk(tile, tlog.HashSize) {
		hashes = append(hashes, tlog.Hash(hash))
	}
	for ; len(hashes) > 1; hashes = hashes[:len(hashes)/2] {
		for i := range len(hashes) / 2 {
			hashes[i] = tlog.NodeHash(hashes[2*i], hashes[2*i+1])
		}
	}
	return hashes[0], nil
}

// tiles reads tiles for tlog.TileHashReader, which checks them.
type tiles struct {
	ctx  context.Context
	tree *Tree
}

func (r tiles) Height() int { return tileHeight }

func (r tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (r tiles) ReadTiles(named []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(named))
	for i, t := range named {
		parts, err := r.tree.get(r.ctx, Tile{Level: t.L, Index: t.N, Width: t.W}, splitTile)
		if err != nil {
			return nil, err
		}
		out[i] = slices.Concat(parts...)
	}
	return out, nil
}

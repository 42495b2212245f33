package translog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// Why something is not served.
var (
	// ErrUnknownLeaf means that an entry is not in the generation (of a closed one: not in what was published) and
	// does not wait for its place there.
	ErrUnknownLeaf = errors.New("the log has no such entry")
	// ErrPending means that an entry has no proof yet.
	ErrPending = errors.New("the entry has no proof yet")
	// ErrNothing means that a generation, tile or checkpoint is not there.
	ErrNothing = errors.New("the log does not have that")
)

// MergeDelay is the time within which the entry of a sale should have a proof. The list of logs names it.
const MergeDelay = time.Minute

// generation returns the head of a generation and the checkpoint that is served of it. ErrNothing.
func (l *Log) generation(ctx context.Context, log int64) (Head, PublishedCheckpoint, error) {
	heads, err := l.Store.Heads(ctx)
	if err != nil {
		return Head{}, PublishedCheckpoint{}, err
	}
	i := slices.IndexFunc(heads, func(h Head) bool { return h.Log == log })
	if i < 0 {
		return Head{}, PublishedCheckpoint{}, ErrNothing
	}
	published, err := l.Store.Published(ctx, log)
	return heads[i], published, err
}

// Checkpoint returns the newest published checkpoint of a generation, as a signed note. ErrNothing.
func (l *Log) Checkpoint(ctx context.Context, log int64) ([]byte, error) {
	_, published, err := l.generation(ctx, log)
	if err == nil && published.Note == nil {
		err = ErrNothing
	}
	return published.Note, err
}

// Tile returns the bytes of a tile, or of a bundle of entries, of a generation's published tree.
// ErrNothing.
func (l *Log) Tile(ctx context.Context, log int64, t receiptlog.Tile) ([]byte, error) {
	_, published, err := l.generation(ctx, log)
	if err != nil {
		return nil, err
	}
	if !t.Within(published.Size) {
		return nil, ErrNothing
	}
	if t.Level != receiptlog.EntriesLevel {
		return tlog.ReadTileData(tlog.Tile{H: 8, L: t.Level, N: t.Index, W: t.Width}, l.hashes(ctx, log))
	}
	entries, err := l.Store.Entries(ctx, log, t.Index*receiptlog.BundleSize, t.Width)
	if err != nil {
		return nil, err
	}
	if len(entries) != t.Width {
		return nil, fmt.Errorf("%d entries of the bundle %s", len(entries), t.Path())
	}
	var bundle []byte
	for _, entry := range entries {
		bundle = receiptlog.AppendBundled(bundle, entry)
	}
	return bundle, nil
}

// Proof returns the proof of a leaf in a generation, as receiptlog.Proof writes it. Where the
// published tree does not have the leaf: ErrPending, ErrUnknownLeaf, or ErrFrozen while the
// log is frozen, because what was lost may come back. ErrNothing: there is no such generation.
func (l *Log) Proof(ctx context.Context, log int64, leaf tlog.Hash) ([]byte, error) {
	head, published, err := l.generation(ctx, log)
	if err != nil {
		return nil, err
	}
	at, err := l.Store.Index(ctx, log, leaf)
	known := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if known && at < published.Size {
		hashes, err := tlog.ProveRecord(published.Size, at, l.hashes(ctx, log))
		if err != nil {
			return nil, fmt.Errorf("prove entry %d: %w", at, err)
		}
		return receiptlog.Proof{Index: at, Hashes: hashes, Checkpoint: published.Note}.Bytes(), nil
	}
	switch {
	case !head.Closed.IsZero():
		return nil, ErrUnknownLeaf
	case head.Frozen != "":
		return nil, ErrFrozen
	case known:
		return nil, ErrPending
	}
	queued, err := l.Store.IsQueued(ctx, leaf)
	if err == nil && !queued {
		// It may have got its place between the two looks.
		if _, err = l.Store.Index(ctx, log, leaf); errors.Is(err, ErrNotFound) {
			return nil, ErrUnknownLeaf
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, ErrPending
}

// Directory returns the list of generations (receiptlog.Directory), in JSON. A closed one of which
// nothing was served is not listed.
func (l *Log) Directory(ctx context.Context) ([]byte, error) {
	heads, err := l.Store.Heads(ctx)
	if err != nil {
		return nil, err
	}
	d := receiptlog.Directory{MergeDelay: int64(MergeDelay / time.Second), Policy: PolicyFor(l.Policy, heads)}
	for _, head := range heads {
		if !head.Closed.IsZero() && len(head.Final) == 0 {
			continue // nothing of it was ever served
		}
		g := receiptlog.Generation{
			Origin: head.Origin, Key: head.VKey, Prefix: Prefix(head.Log), From: head.Opened.Format(time.RFC3339),
			Final: string(head.Final),
		}
		if !head.Closed.IsZero() {
			g.To = head.Closed.Format(time.RFC3339)
		}
		d.Logs = append(d.Logs, g)
	}
	return json.Marshal(d)
}

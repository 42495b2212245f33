package beaconchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

const (
	// portion is how many sold blocks and bundles are taken at once.
	portion = 50
	// taken is how long a bundle that a process makes is left to it.
	taken = 2 * time.Minute
	// firstRetry and longestRetry bound the pause after a bundle could not be made. giveUpAfter is
	// for how long after the first try it is tried. A bundle that is pending for longer is reported as
	// ErrUnavailable, also while it is not tried yet.
	firstRetry, longestRetry = 2 * time.Second, 2 * time.Minute
	giveUpAfter              = 20 * time.Minute
	// longestWait is how long a block waits for a verified update about it or a later block.
	longestWait = 24 * time.Hour
	// Up to fewHeaders headers are taken in place of a proof, which is larger. mostHeaders is how
	// many are taken at most where no node has a proof.
	fewHeaders, mostHeaders = 8, finality.MaxHeaders
)

// errTooOld means that the newest finalized block no longer has a block in its record of block hashes,
// and that no other one is near.
var errTooOld = errors.New("the block is too old to be linked to a finalized one")

// content is what Bundle.Content holds, in JSON.
type content struct {
	Step      finality.Step      `json:"step"`
	Execution finality.Execution `json:"execution"`
	Link      finality.Link      `json:"link"`
}

// MakeBundles makes the bundles of sold blocks that are due, at most portion of them. A bundle
// that cannot be made is put off or given up; only an error of the store is returned.
func (c *Chain) MakeBundles(ctx context.Context) error {
	err := c.makeBundles(ctx)
	if err != nil && ctx.Err() == nil {
		c.Log.ErrorContext(ctx, "finality: bundles cannot be read or written", "error", err)
	}
	return err
}

func (c *Chain) makeBundles(ctx context.Context) error {
	for {
		n, err := c.Store.TakeSold(ctx, portion)
		if err != nil {
			return err
		}
		if n < portion {
			break
		}
	}
	can := Makeable{QueuedBefore: c.Now().Add(-longestWait)}
	if newest, ok := c.newestAnchor(); ok {
		can.UpTo = newest.number
	}
	due, err := c.Store.DueBundles(ctx, c.Network.ChainID, can, c.Now().Add(taken), portion)
	if err != nil {
		return err
	}
	for _, b := range due {
		if err := c.makeOne(ctx, b); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// makeOne makes a bundle, or puts it off or gives it up. The error is that of Store.PutOff, which writes both.
func (c *Chain) makeOne(ctx context.Context, b Bundle) error {
	now := c.Now()
	nearest, newest, ok := c.anchorsFor(b.Number)
	if !ok {
		if now.Sub(b.Queued) > longestWait {
			b.State = BundleUnavailable
			c.Log.WarnContext(ctx, "finality: no update came as far as a sold block", "block", b.Number)
		}
		return c.Store.PutOff(ctx, b, now)
	}
	a, link, err := c.link(ctx, b, nearest, newest)
	if errors.Is(err, errTooOld) {
		b.State = BundleUnavailable
		c.Log.InfoContext(ctx, "finality: a sold block has no proof", "block", b.Number, "error", err)
		return c.Store.PutOff(ctx, b, now)
	}
	cause := CauseLink
	if err == nil {
		cause = CauseBundle
		b.Period, b.Slot = a.period, a.slot
		b.Content, err = json.Marshal(content{Step: a.step, Execution: a.execution, Link: link})
	}
	if err == nil {
		err = c.verify(ctx, b)
	}
	if err == nil {
		err = c.Store.KeepBundle(ctx, b)
		if errors.Is(err, ErrNotFound) {
			return nil // it has expired meanwhile
		}
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	c.Failed(cause)
	if b.Tried.IsZero() {
		b.Tried = now
	}
	pause := min(firstRetry<<min(b.Tries, 10), longestRetry)
	b.Tries++
	if now.Sub(b.Tried) > giveUpAfter {
		b.State = BundleUnavailable
	}
	c.Log.WarnContext(ctx, "finality: the proof of a sold block cannot be made", "block", b.Number, "tries", b.Tries,
		"given_up", b.State == BundleUnavailable, "error", err)
	return c.Store.PutOff(ctx, b, now.Add(pause))
}

// anchorsFor returns the nearest verified update of a block or of one above it, and the newest
// update; false when there is none of such a block.
func (c *Chain) anchorsFor(number uint64) (nearest, newest anchor, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.anchors {
		if a.number >= number {
			return a, c.anchors[len(c.anchors)-1], true
		}
	}
	return anchor{}, anchor{}, false
}

// link links a block to a finalized one: to the nearest by headers where they are few; else to
// the newest, of which nodes still have the state, by the chain's own record of block hashes;
// and where no node proves that, to the nearest by up to mostHeaders headers. These are taken at once after
// a failed try: the proof may be what did not verify, and a node that refused it may then refuse headers, too.
// errTooOld.
func (c *Chain) link(ctx context.Context, b Bundle, nearest, newest anchor) (anchor, finality.Link, error) {
	distance := nearest.number - b.Number
	if distance == 0 {
		return nearest, finality.Link{Kind: finality.LinkSame}, nil
	}
	if distance <= fewHeaders || b.Tries > 0 && distance <= mostHeaders {
		link, err := c.headers(ctx, b.SoldBlock, nearest)
		return nearest, link, err
	}
	if since := newest.number - b.Number; distance > mostHeaders && since > finality.HistoryWindow {
		return newest, finality.Link{}, fmt.Errorf("%d blocks before block %d: %w", since, newest.number, errTooOld)
	}
	link, err := c.history(ctx, b.SoldBlock, newest)
	if err == nil || distance > mostHeaders {
		return newest, link, err
	}
	c.Log.InfoContext(ctx, "finality: no node proves the record of block hashes (eth_getProof); headers are taken",
		"block", b.Number, "at", newest.number, "error", err)
	link, headersErr := c.headers(ctx, b.SoldBlock, nearest)
	if headersErr != nil {
		return nearest, link, errors.Join(err, headersErr)
	}
	return nearest, link, nil
}

func (c *Chain) headers(ctx context.Context, b SoldBlock, a anchor) (finality.Link, error) {
	list, err := c.Blocks.Headers(ctx, b.Number+1, a.number, chain.Hash(a.execution.BlockHash))
	return finality.Link{Kind: finality.LinkHeaders, Headers: hexes(list)}, err
}

func (c *Chain) history(ctx context.Context, b SoldBlock, a anchor) (finality.Link, error) {
	if a.number-b.Number > finality.HistoryWindow {
		return finality.Link{}, fmt.Errorf("block %d is more than %d blocks before the finalized block %d", b.Number,
			finality.HistoryWindow, a.number)
	}
	contract, err := chain.ParseAddress(finality.HistoryContract)
	if err != nil {
		return finality.Link{}, err
	}
	header, account, storage, err := c.Blocks.StorageProof(ctx, a.number, chain.Hash(a.execution.BlockHash), contract,
		chain.Hash(finality.HistorySlot(b.Number)))
	return finality.Link{Kind: finality.LinkHistory, Header: header, Account: hexes(account), Storage: hexes(storage)},
		err
}

func hexes(list [][]byte) []receipt.Hex {
	out := make([]receipt.Hex, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

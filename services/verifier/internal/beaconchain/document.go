package beaconchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// How many checkpoints that callers name are read from nodes in a minute: for the network
// of one client, so that it cannot use up those of others, and for all clients together, which
// bounds the requests to nodes.
const (
	namedByOne = 20
	namedByAll = 200
	// refusedFor is for how long a checkpoint is not read again that no node knows or that is too old.
	refusedFor = 5 * time.Minute
)

// Document returns the finality document of a sold block, in JSON, which begins at a
// checkpoint; nil means our oldest checkpoint that is recent enough. A node is asked only for a
// checkpoint that is not kept, and only if the proof is made; client is the network of the
// client, from whose allowance that is taken; with "" none is asked, and where one would be asked, the
// error is ErrNotKept. ErrUnknownBlock, ErrExpired, ErrPending, ErrUnavailable, ErrCheckpointUnknown,
// ErrCheckpointTooOld.
func (c *Chain) Document(
	ctx context.Context, client string, block finality.Root, checkpoint *finality.Root,
) ([]byte, error) {
	b, err := c.Store.Bundle(ctx, c.Network.ChainID, block)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, ErrUnknownBlock
	case err != nil:
		return nil, err
	case b.State == BundleExpired:
		return nil, ErrExpired
	case b.State == BundleUnavailable, b.State == BundlePending && c.Now().Sub(b.Queued) > giveUpAfter:
		return nil, ErrUnavailable
	case b.State == BundlePending:
		return nil, ErrPending
	}
	var kept content
	if err := json.Unmarshal(b.Content, &kept); err != nil {
		return nil, fmt.Errorf("read the bundle of block %d: %w", b.Number, err)
	}
	var d *finality.Document
	switch {
	case checkpoint == nil:
		d, err = c.fromOwn(ctx, b, kept, func([]Checkpoint) {})
	case *checkpoint == kept.Step.Finalized.HashTreeRoot():
		d = c.document(b, kept)
		d.Anchor = finality.Anchor{
			Kind:       finality.AnchorPinnedBlock,
			Checkpoint: finality.Checkpoint{Root: *checkpoint, Header: kept.Step.Finalized}, Execution: kept.Execution,
		}
	default:
		var from finality.Checkpoint
		if from, err = c.checkpoint(ctx, client, b, *checkpoint); err == nil {
			d, err = c.from(ctx, b, kept, from)
		}
	}
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err == nil && len(text) > finality.MaxSize {
		err = ErrUnavailable // readers accept no larger one
	}
	return text, err
}

// document returns all of a document but its anchor.
func (c *Chain) document(b Bundle, kept content) *finality.Document {
	return &finality.Document{
		Type: finality.Type, Version: finality.Version, Chain: c.Network.ChainID, Network: c.Network.Name,
		Block: finality.Block{Number: finality.Uint64(b.Number), Hash: b.Hash}, Link: kept.Link,
	}
}

// oldest returns the slot before which a checkpoint is too old for a bundle. Readers count the age
// up to the bundle's finalized block, or to the beginning of its period where that is later.
func (c *Chain) oldest(b Bundle) uint64 {
	end := max(b.Slot, b.Period*c.Network.SlotsPerPeriod)
	return end - min(end, uint64(finality.DefaultMaxAge.Seconds())/c.Network.SecondsPerSlot)
}

// fromOwn returns the document from the first of our own checkpoints that is recent enough and from
// which steps lead to the bundle's period; ErrUnavailable where there is none. order gets these
// checkpoints, the oldest first, and may reorder them.
func (c *Chain) fromOwn(
	ctx context.Context, b Bundle, kept content, order func([]Checkpoint),
) (*finality.Document, error) {
	own, err := c.Store.OwnCheckpoints(ctx, b.Chain, c.oldest(b))
	if err != nil {
		return nil, err
	}
	order(own)
	for _, k := range own {
		var from finality.Checkpoint
		if err := json.Unmarshal(k.Checkpoint, &from); err != nil {
			return nil, fmt.Errorf("read the checkpoint %x: %w", k.Root, err)
		}
		d, err := c.from(ctx, b, kept, from)
		if err == nil || !errors.Is(err, ErrCheckpointTooOld) && !errors.Is(err, ErrCheckpointUnknown) {
			return d, err
		}
	}
	return nil, ErrUnavailable
}

// checkpoint returns the checkpoint with a root: one that is kept, else one that a node knows. Asking
// nodes takes from the client's allowance; what was refused lately is refused again without that.
func (c *Chain) checkpoint(
	ctx context.Context, client string, b Bundle, root finality.Root,
) (from finality.Checkpoint, err error) {
	kept, err := c.Store.Checkpoint(ctx, b.Chain, root)
	switch {
	case err == nil:
		return from, json.Unmarshal(kept.Checkpoint, &from)
	case !errors.Is(err, ErrNotFound):
		return from, err
	}
	if err := c.named.refused(root, c.oldest(b), c.Now()); err != nil {
		return from, err
	}
	if client == "" {
		return from, ErrNotKept
	}
	if !c.named.spend(client, c.Now()) {
		return from, ErrUnavailable
	}
	lacking := 0
	err = c.ask(ctx, c.nodes, func(n *node) (err error) {
		if from, _, err = c.bootstrap(ctx, n, root); errors.Is(err, chain.ErrNoBeaconData) {
			lacking++
		}
		return err
	})
	switch {
	case lacking == len(c.nodes): // one that is away may have it
		c.named.refuse(root, refusal{at: c.Now()})
		return from, ErrCheckpointUnknown
	case err != nil:
		c.Log.WarnContext(ctx, "finality: a checkpoint that a caller names cannot be read", "checkpoint", root.String(),
			"error", err)
		return from, ErrUnavailable
	case uint64(from.Header.Slot) < c.oldest(b):
		c.named.refuse(root, refusal{at: c.Now(), known: true, slot: uint64(from.Header.Slot)})
		return from, ErrCheckpointTooOld
	}
	return from, c.keepNamed(ctx, from, false)
}

// from returns the document from a checkpoint. ErrCheckpointUnknown, ErrCheckpointTooOld.
func (c *Chain) from(
	ctx context.Context, b Bundle, kept content, from finality.Checkpoint,
) (*finality.Document, error) {
	period := c.Network.Period(uint64(from.Header.Slot))
	switch {
	case period > b.Period:
		return nil, ErrCheckpointUnknown
	case b.Period-period >= finality.MaxSteps, uint64(from.Header.Slot) < c.oldest(b):
		return nil, ErrCheckpointTooOld
	}
	d := c.document(b, kept)
	d.Anchor = finality.Anchor{Kind: finality.AnchorSyncCommittee, Checkpoint: from, Execution: kept.Execution}
	if period < b.Period {
		steps, err := c.Store.Steps(ctx, b.Chain, period, b.Period-1)
		if err != nil {
			return nil, err
		}
		if uint64(len(steps)) != b.Period-period {
			return nil, ErrCheckpointTooOld // no steps lead from it
		}
		for _, k := range steps {
			var step finality.Step
			if err := json.Unmarshal(k.Step, &step); err != nil {
				return nil, fmt.Errorf("read the step of period %d: %w", k.Period, err)
			}
			d.Anchor.Steps = append(d.Anchor.Steps, step)
		}
	}
	d.Anchor.Steps = append(d.Anchor.Steps, kept.Step)
	if from.Committee == nil || d.Anchor.Steps[0].Signer.HashTreeRoot() != *from.Committee {
		return nil, ErrCheckpointUnknown // of another chain
	}
	return d, nil
}

// verify verifies the document of a bundle as readers do, from our newest checkpoint from which
// one can be made: the steps before were verified when they were kept.
func (c *Chain) verify(ctx context.Context, b Bundle) error {
	var kept content
	if err := json.Unmarshal(b.Content, &kept); err != nil {
		return err
	}
	d, err := c.fromOwn(ctx, b, kept, slices.Reverse)
	if err != nil {
		return err
	}
	_, err = finality.VerifyBlock(d, finality.Trust{Checkpoint: d.Anchor.Checkpoint.Root, Network: c.Network})
	return err
}

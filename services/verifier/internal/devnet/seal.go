package devnet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/beacon/engine"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// buildTime is what the node gets to fill a block: it answers with what it has,
// at first an empty one.
const buildTime = 100 * time.Millisecond

// keepSealing adds a block a beat until ctx ends.
func (c *Chain) keepSealing(ctx context.Context, beat time.Duration) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.seal(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("cannot add a block", "error", err)
		}
	}
}

// seal adds one block with the transactions that wait, and moves the finalized
// head, as a consensus client does (Engine API, Prague: forkchoiceUpdatedV3,
// getPayloadV4, newPayloadV4).
func (c *Chain) seal(ctx context.Context) error {
	if err := c.backend.TxPool().Sync(); err != nil {
		return fmt.Errorf("let the pool see the last block: %w", err)
	}
	head := c.backend.BlockChain().CurrentBlock()
	attributes := &engine.PayloadAttributes{
		Timestamp:   max(uint64(time.Now().Unix()), head.Time+1), //nolint:gosec // the clock is after 1970
		Withdrawals: []*types.Withdrawal{}, BeaconRoot: &common.Hash{},
	}
	if _, err := rand.Read(attributes.Random[:]); err != nil {
		return fmt.Errorf("draw randomness: %w", err)
	}
	payload, err := c.build(ctx, head.Hash(), attributes)
	if err != nil {
		return err
	}
	requests := make([]hexutil.Bytes, 0, len(payload.Requests))
	for _, r := range payload.Requests {
		requests = append(requests, r)
	}
	status, err := c.engine.NewPayloadV4(ctx, *payload.ExecutionPayload, []common.Hash{}, &common.Hash{}, requests)
	if err != nil {
		return fmt.Errorf("hand in the block: %w", err)
	}
	if status.Status != engine.VALID {
		return fmt.Errorf("the node calls its own block %s", status.Status)
	}
	_, err = c.engine.ForkchoiceUpdatedV3(ctx, c.choice(payload.ExecutionPayload.BlockHash, payload.ExecutionPayload.Number), nil)
	if err != nil {
		return fmt.Errorf("move the head: %w", err)
	}
	return nil
}

func (c *Chain) build(ctx context.Context, head common.Hash, attributes *engine.PayloadAttributes) (*engine.ExecutionPayloadEnvelope, error) {
	number := c.backend.BlockChain().CurrentBlock().Number.Uint64()
	response, err := c.engine.ForkchoiceUpdatedV3(ctx, c.choice(head, number), attributes)
	if err != nil {
		return nil, fmt.Errorf("begin a block: %w", err)
	}
	if response.PayloadID == nil {
		return nil, errors.New("the node begins no block")
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(buildTime):
	}
	envelope, err := c.engine.GetPayloadV4(*response.PayloadID)
	if err != nil {
		return nil, fmt.Errorf("fetch the block: %w", err)
	}
	return envelope, nil
}

// choice names the head and the finalized block behind it.
func (c *Chain) choice(head common.Hash, number uint64) engine.ForkchoiceStateV1 {
	finalized := c.backend.BlockChain().GetCanonicalHash(number - min(number, c.depth))
	return engine.ForkchoiceStateV1{HeadBlockHash: head, SafeBlockHash: finalized, FinalizedBlockHash: finalized}
}

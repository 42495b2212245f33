package devnet

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/beacon/engine"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/miner"
)

const (
	// buildTimeout bounds how long filling a block may take; a block that is not
	// filled by then goes without transactions, and the next one has them.
	buildTimeout = 5 * time.Second
	// buildPoll is the pause between checks whether a block is filled.
	buildPoll = 2 * time.Millisecond
)

// keepSealing adds a block at every interval until ctx ends.
func (c *Chain) keepSealing(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
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
// head, as a consensus client does (Engine API, Prague: newPayloadV4,
// forkchoiceUpdatedV3).
func (c *Chain) seal(ctx context.Context) error {
	if err := c.backend.TxPool().Sync(); err != nil {
		return fmt.Errorf("update the pool: %w", err)
	}
	built, err := c.build(ctx, c.backend.BlockChain().CurrentBlock())
	if err != nil {
		return err
	}
	requests := make([]hexutil.Bytes, 0, len(built.Requests))
	for _, r := range built.Requests {
		requests = append(requests, r)
	}
	block := built.ExecutionPayload
	status, err := c.engine.NewPayloadV4(ctx, *block, []common.Hash{}, &common.Hash{}, requests)
	if err != nil {
		return fmt.Errorf("add the block: %w", err)
	}
	if status.Status != engine.VALID {
		return fmt.Errorf("the node returns %s for its own block", status.Status)
	}
	if _, err = c.engine.ForkchoiceUpdatedV3(ctx, c.choice(block.BlockHash, block.Number), nil); err != nil {
		return fmt.Errorf("move the head: %w", err)
	}
	return nil
}

// build makes the node build the next block, and waits until it has tried every
// waiting transaction: the node begins with an empty block.
func (c *Chain) build(ctx context.Context, head *types.Header) (*engine.ExecutionPayloadEnvelope, error) {
	args := miner.BuildPayloadArgs{
		Parent: head.Hash(), Timestamp: max(uint64(time.Now().Unix()), head.Time+1),
		Withdrawals: types.Withdrawals{}, BeaconRoot: &common.Hash{}, Version: engine.PayloadV3,
	}
	if _, err := rand.Read(args.Random[:]); err != nil {
		return nil, fmt.Errorf("draw randomness: %w", err)
	}
	payload, err := c.backend.Miner().BuildPayload(ctx, &args, false)
	if err != nil {
		return nil, fmt.Errorf("begin a block: %w", err)
	}
	ticker, timeout := time.NewTicker(buildPoll), time.After(buildTimeout)
	defer ticker.Stop()
	for {
		if filled, _, _, _ := payload.FullBlockAndReceipts(); filled != nil {
			return payload.Resolve(), nil
		}
		select {
		case <-ctx.Done():
			payload.Resolve() // stops the building
			return nil, ctx.Err()
		case <-timeout:
			return payload.Resolve(), nil
		case <-ticker.C:
		}
	}
}

// choice names the head and the finalized block behind it.
func (c *Chain) choice(head common.Hash, number uint64) engine.ForkchoiceStateV1 {
	finalized := c.backend.BlockChain().GetCanonicalHash(number - min(number, c.depth))
	return engine.ForkchoiceStateV1{HeadBlockHash: head, SafeBlockHash: finalized, FinalizedBlockHash: finalized}
}

package ethrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// confirm waits until a quorum of endpoints stands for the block. An endpoint's
// vote is that it has the hash at that height and has itself seen the chain
// finalized up to there; one that is behind has no vote. The endpoint that the
// proof comes from votes by the proof.
func (r *Reader) confirm(ctx context.Context, from *endpoint, number uint64, hash common.Hash) error {
	missing := r.quorum
	if from.lastHead().finalized >= number {
		missing--
	}
	if missing <= 0 {
		return nil
	}
	var voters []*endpoint
	for _, e := range r.pool.order() {
		if e != from && e.lastHead().finalized >= number && e.circuit.admit(r.now(), e.timeout) {
			voters = append(voters, e)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the votes that are no longer needed
	votes := make(chan error, len(voters))
	for _, e := range voters {
		go func() { votes <- vote(ctx, e, number, hash) }()
	}
	result := chain.ErrUnavailable
	for range voters {
		switch err := <-votes; {
		case err == nil:
			if missing--; missing == 0 {
				return nil
			}
		case errors.Is(err, chain.ErrQuorum):
			result = chain.ErrQuorum
		}
	}
	return fmt.Errorf("%d more nodes have to confirm block %d: %w", missing, number, result)
}

// vote is nil when the endpoint has this block at this height.
func vote(ctx context.Context, e *endpoint, number uint64, hash common.Hash) error {
	c := newCall("eth_getBlockByNumber", hexNumber(number), false)
	if err := e.do(ctx, nil, c); err != nil {
		return err
	}
	var header struct {
		Hash *common.Hash `json:"hash"`
	}
	found, err := c.into(&header)
	if err != nil {
		return err
	}
	if !found || header.Hash == nil || *header.Hash != hash {
		return chain.ErrQuorum
	}
	return nil
}

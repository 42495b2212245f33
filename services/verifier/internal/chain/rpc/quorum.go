package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// confirm waits until a quorum of endpoints stands for the block. The endpoint
// that the proof comes from stands for it by the proof, and each of the others by
// its vote. One whose word is old, or is that the chain is not finalized up to
// there, has no vote.
func (r *Reader) confirm(ctx context.Context, from *endpoint, number uint64, hash common.Hash) error {
	missing := r.quorum - 1
	if missing <= 0 {
		return nil
	}
	var voters []*endpoint
	for _, e := range r.pool.order() {
		if word, fresh := e.word(r.maxHeadAge); e != from && fresh && word.finalized >= number && e.circuit.admit(r.now(), e.timeout) {
			voters = append(voters, e)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the votes that are no longer needed
	votes := make(chan error, len(voters))
	for _, e := range voters {
		go func() { votes <- guarded(r.log, func() error { return r.vote(ctx, e, number, hash) }) }()
	}
	behind, dissent := false, false
	for range voters {
		switch err := <-votes; {
		case err == nil:
			if missing--; missing == 0 {
				return nil
			}
		case errors.Is(err, chain.ErrQuorum):
			dissent = true
		case errors.Is(err, chain.ErrNotFinalized):
			behind = true
		}
	}
	result := chain.ErrUnavailable
	switch {
	case dissent:
		result = chain.ErrQuorum
	case behind:
		result = chain.ErrNotFinalized
	}
	return fmt.Errorf("%d more nodes have to confirm block %d: %w", missing, number, result)
}

// vote is nil when the endpoint has this block at this height and calls it
// finalized in the same answer: what it said before does not count alone.
func (r *Reader) vote(ctx context.Context, e *endpoint, number uint64, hash common.Hash) error {
	c, ask := newCall("eth_getBlockByNumber", hexNumber(number), false), r.askHead()
	if err := e.do(ctx, nil, append(ask.calls(), c)...); err != nil {
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
	word, err := r.noteHead(e, ask)
	if err != nil {
		return err
	}
	return word.covers(number, hash)
}

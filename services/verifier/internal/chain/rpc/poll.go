package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// How often the heads are looked at: about once a block, and seldom while no
// request comes.
const (
	pollShortest = time.Second
	pollLongest  = 12 * time.Second
	idleAfter    = time.Minute
)

// Run watches the heads until ctx ends. Without it the heads are asked for on
// demand, whenever they are older than the bound.
func (r *Reader) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(r.pollInterval())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.heads.woken:
			timer.Stop()
		case <-timer.C:
		}
		_ = guarded(r.log, func() error { r.poll(ctx); return nil }) // it is logged
	}
}

// pollInterval is the chain's own pace within bounds. While no request comes it
// is as slow as it can be for the heads to stay within their bound: the first
// request need not wait for a node, and the metrics are never older.
func (r *Reader) pollInterval() time.Duration {
	if r.heads.idle(r.now()) {
		return r.maxHeadAge * 3 / 4
	}
	return min(max(r.heads.pace(), pollShortest), pollLongest, r.maxHeadAge/2)
}

// poll looks at the heads and reports them.
func (r *Reader) poll(ctx context.Context) {
	if r.look(ctx, nil) != nil {
		return // the reader is closing
	}
	if heads, age := r.agreed(); age <= r.maxHeadAge {
		r.hooks.Heads(heads)
	}
}

// look asks every endpoint how far the chain is, but none whose word is younger
// than a second. It returns as soon as a quorum has answered, and the needed
// endpoint with it, if there is one, or when all have answered or failed. The
// slower ones' answers are still noted. Only a ctx that ends is an error.
func (r *Reader) look(ctx context.Context, needed *endpoint) error {
	type answer struct {
		from *endpoint
		good bool
	}
	endpoints := r.pool.endpoints
	answers := make(chan answer, len(endpoints))
	for _, e := range endpoints {
		if _, fresh := e.word(pollShortest - 1); fresh {
			answers <- answer{e, true}
			continue
		}
		go func() {
			_, err := r.looks.Do(context.WithoutCancel(ctx), e, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, r.pollEndpoint(ctx, e)
			})
			if err = faultOf(r.log, err); err != nil {
				r.log.Debug("heads not read", "chain", r.identity.Name, "node", e.name, "error", err)
			}
			answers <- answer{e, err == nil}
		}()
	}
	good := 0
	for range endpoints {
		select {
		case a := <-answers:
			if a.good {
				good++
			}
			if a.from == needed {
				needed = nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errGone, chain.ErrUnavailable)
		}
		if good >= r.quorum && needed == nil {
			break
		}
	}
	return nil
}

// pollEndpoint reads one endpoint's heads. Endpoints that want rest are left
// alone; those on the wrong chain are asked, so that they can come back.
func (r *Reader) pollEndpoint(ctx context.Context, e *endpoint) error {
	if !e.circuit.admit(r.now(), e.timeout) {
		return fmt.Errorf("circuit is open: %w", chain.ErrUnavailable)
	}
	id, ask := newCall("eth_chainId"), r.askHead()
	if err := e.do(ctx, nil, append(ask.calls(), id)...); err != nil {
		return err
	}
	if err := r.checkChain(e, id); err != nil {
		return err
	}
	_, err := r.noteHead(e, ask)
	return err
}

// headQuestion is the two calls by which an endpoint says how far the chain is.
type headQuestion struct {
	latest, finalized *call
	at                time.Time // when it was asked: an answer is as old as its question
}

func (r *Reader) askHead() headQuestion {
	return headQuestion{
		latest:    newCall("eth_getBlockByNumber", "latest", false),
		finalized: newCall("eth_getBlockByNumber", "finalized", false),
		at:        r.now(),
	}
}

func (q headQuestion) calls() []*call { return []*call{q.latest, q.finalized} }

// noteHead reads an endpoint's answer and keeps it as its word, unless it cannot
// be believed.
func (r *Reader) noteHead(e *endpoint, q headQuestion) (h head, err error) {
	if h.latest, h.latestTime, _, err = height(q.latest); err != nil {
		return h, fmt.Errorf("latest: %w", err)
	}
	if h.finalized, h.finalizedTime, h.finalizedHash, err = height(q.finalized); err != nil {
		return h, fmt.Errorf("finalized: %w", err)
	}
	if h.finalized > h.latest {
		return h, fmt.Errorf("finalized is beyond latest: %w", chain.ErrInconsistent)
	}
	h.at = q.at
	ahead := h.latestTime > uint64(max(r.now().Add(future).Unix(), 0))
	if ahead || !e.saw(h, r.maxHeadAge) {
		if !e.suspected() { // else the log says it already
			r.log.Warn("node's heads are beyond belief", "chain", r.identity.Name, "node", e.name, "latest", h.latest, "timestamp", h.latestTime)
			e.suspect()
		}
		return h, fmt.Errorf("latest is too far ahead: %w", chain.ErrInconsistent)
	}
	r.heads.learn(h)
	return h, nil
}

// height reads number, timestamp and, where it is told, hash of a block. Nodes
// without finality answer null or an error.
func height(c *call) (number, timestamp uint64, hash *common.Hash, err error) {
	var header struct {
		Number    evm.Quantity `json:"number"`
		Timestamp evm.Quantity `json:"timestamp"`
		Hash      *common.Hash `json:"hash"`
	}
	found, err := c.into(&header)
	if err != nil || !found {
		return 0, 0, nil, chain.ErrFinalityUnavailable
	}
	number, ok := header.Number.Uint64()
	timestamp, timed := header.Timestamp.Uint64()
	if !ok || !timed {
		return 0, 0, nil, chain.ErrFinalityUnavailable
	}
	return number, timestamp, header.Hash, nil
}

// covers is nil when the answer is that the block with this number and hash is
// finalized.
func (h head) covers(number uint64, hash common.Hash) error {
	switch {
	case h.finalized < number:
		return chain.ErrNotFinalized
	case h.finalized == number && h.finalizedHash != nil && *h.finalizedHash != hash:
		return chain.ErrInconsistent
	default:
		return nil
	}
}

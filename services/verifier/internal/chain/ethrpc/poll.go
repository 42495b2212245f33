package ethrpc

import (
	"context"
	"fmt"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// How often the heads are looked at: about once a block, and seldom while nobody
// asks.
const (
	pollShortest = time.Second
	pollLongest  = 12 * time.Second
	idleAfter    = 2 * time.Minute
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
		case <-timer.C:
			r.poll(ctx)
		}
	}
}

// pollInterval is the chain's own pace within bounds; while nobody asks, as slow
// as the bound on the heads' age allows.
func (r *Reader) pollInterval() time.Duration {
	interval := min(max(r.heads.current().BlockTime, pollShortest), pollLongest)
	if r.heads.idle(r.now()) > idleAfter {
		interval = max(interval, r.maxHeadAge/2)
	}
	return min(interval, r.maxHeadAge/2)
}

// poll asks every endpoint how far the chain is, and returns as soon as a quorum
// has answered or all have failed. The slower ones' answers are still noted.
func (r *Reader) poll(ctx context.Context) {
	endpoints := r.pool.endpoints
	answers := make(chan bool, len(endpoints))
	for _, e := range endpoints {
		go func() {
			err := r.pollEndpoint(ctx, e)
			if err != nil && ctx.Err() == nil {
				r.log.Debug("heads not read", "chain", r.identity.Name, "node", e.name, "error", err)
			}
			answers <- err == nil
		}()
	}
	good := 0
	for range endpoints {
		if <-answers {
			good++
		}
		if good >= r.quorum {
			break
		}
	}
	heads, _ := r.agreed()
	r.hooks.Heads(heads)
}

// pollEndpoint reads one endpoint's heads. Endpoints that want rest are left
// alone; those on the wrong chain are asked, so that they can come back.
func (r *Reader) pollEndpoint(ctx context.Context, e *endpoint) error {
	if !e.circuit.admit(r.now(), e.timeout) {
		return fmt.Errorf("circuit is open: %w", chain.ErrUnavailable)
	}
	id := newCall("eth_chainId")
	latest := newCall("eth_getBlockByNumber", "latest", false)
	finalized := newCall("eth_getBlockByNumber", "finalized", false)
	if err := e.do(ctx, nil, id, latest, finalized); err != nil {
		return err
	}
	if err := r.checkChain(e, id); err != nil {
		return err
	}
	var h head
	var err error
	if h.latest, h.latestTime, err = height(latest); err != nil {
		return fmt.Errorf("latest: %w", err)
	}
	if h.finalized, h.finalizedTime, err = height(finalized); err != nil {
		return fmt.Errorf("finalized: %w", err)
	}
	if h.finalized > h.latest {
		return fmt.Errorf("finalized is beyond latest: %w", chain.ErrInconsistent)
	}
	h.at = r.now()
	if !r.heads.believable(h.latest, h.at) {
		if !e.suspected() { // else the log says it already
			r.log.Warn("node's heads are beyond belief", "chain", r.identity.Name, "node", e.name, "latest", h.latest)
			e.suspect()
		}
		return fmt.Errorf("latest is too far ahead: %w", chain.ErrInconsistent)
	}
	e.saw(h)
	r.heads.pace(h)
	return nil
}

// height reads number and timestamp of a block. Nodes without finality answer
// null or an error.
func height(c *call) (number, timestamp uint64, err error) {
	var header struct {
		Number    quantity `json:"number"`
		Timestamp quantity `json:"timestamp"`
	}
	found, err := c.into(&header)
	if err != nil || !found {
		return 0, 0, chain.ErrFinalityUnavailable
	}
	number, ok := header.Number.uint64()
	timestamp, timed := header.Timestamp.uint64()
	if !ok || !timed {
		return 0, 0, chain.ErrFinalityUnavailable
	}
	return number, timestamp, nil
}

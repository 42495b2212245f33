package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// The heads are polled about once a block, but at intervals from pollShortest to pollLongest, and
// seldom when no request came for the time idleAfter.
const (
	pollShortest = time.Second
	pollLongest  = 12 * time.Second
	idleAfter    = time.Minute
)

// Run polls the heads until ctx ends. Without it they are read on demand, whenever
// they are older than chain.Config.MaxHeadAge.
func (r *Reader) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.usage.resumed:
		case <-time.After(r.pollInterval()):
		}
		_ = guarded(r.log, func() error { r.poll(ctx); return nil }) // it is logged
	}
}

// pollInterval returns the chain's block time within bounds. While no request comes
// it is three quarters of maxHeadAge, so that the first request then finds recent heads.
func (r *Reader) pollInterval() time.Duration {
	if r.usage.idle(r.now()) {
		return r.maxHeadAge * 3 / 4
	}
	return min(max(r.usage.estimatedBlockTime(), pollShortest), pollLongest, r.maxHeadAge/2)
}

// poll reads the heads and reports them to the hook.
func (r *Reader) poll(ctx context.Context) {
	if r.pollAll(ctx, nil) != nil {
		return // the reader is closing
	}
	if heads, known := r.agreedHeads(); known {
		r.hooks.Heads(heads)
	}
}

// Heads returns how far the chain is, by reports that are not older than
// chain.Config.MaxHeadAge. Where there are too few it polls the nodes, once for all callers that
// wait. ErrFinalityUnavailable: there are too few then too. ErrWrongChain: all nodes serve
// another chain. ErrUnavailable: ctx has ended.
//
// With a quorum of k, the heads are the k-th highest of what the endpoints reported
// last. With a quorum of one they are the report of one endpoint, the best with a recent
// one, and not the highest of all: else an error of any endpoint would count.
func (r *Reader) Heads(ctx context.Context) (chain.Heads, error) {
	r.usage.record(r.now())
	return r.Reached(ctx)
}

// Reached returns what Heads does, but does not count as a request: a health check
// does not keep the poller busy.
func (r *Reader) Reached(ctx context.Context) (chain.Heads, error) {
	heads, known := r.agreedHeads()
	if known {
		return heads, nil
	}
	if err := r.pollAll(ctx, nil); err != nil {
		return chain.Heads{}, err
	}
	if heads, known = r.agreedHeads(); !known {
		return chain.Heads{}, r.noHeads()
	}
	return heads, nil
}

// HasHeads reports whether a quorum has reported within MaxHeadAge how far the chain is.
func (r *Reader) HasHeads() bool {
	_, known := r.agreedHeads()
	return known
}

// noHeads returns the error when too few endpoints report how far the chain is.
func (r *Reader) noHeads() error {
	err := chain.ErrFinalityUnavailable
	if r.allWrongChain() {
		err = chain.ErrWrongChain
	}
	return chain.WithRetryAfter(err, r.pollInterval())
}

// agreedHeads returns the heads; known is false when too few endpoints have reported within maxHeadAge.
func (r *Reader) agreedHeads() (heads chain.Heads, known bool) {
	var latest, finalized []uint64
	for _, e := range r.byTrust() {
		if report, fresh := e.lastHead(r.maxHeadAge); fresh {
			latest, finalized = append(latest, report.latest), append(finalized, report.finalized)
		}
	}
	if len(latest) < r.quorum {
		return chain.Heads{}, false
	}
	kth := 0 // of a quorum of one: the best endpoint's
	if r.quorum > 1 {
		slices.Sort(latest)
		slices.Sort(finalized)
		kth = len(latest) - r.quorum
	}
	return r.headsOf(latest[kth], finalized[kth]), true
}

func (r *Reader) headsOf(latest, finalized uint64) chain.Heads {
	return chain.Heads{Latest: latest, Finalized: finalized, BlockTime: r.usage.estimatedBlockTime()}
}

// pollAll reads the heads of every endpoint, but of none whose report is younger than
// a second. It returns as soon as a quorum has answered, and the needed endpoint, if
// there is one, has answered or failed; or when all have. The slower ones' reports
// still count later. Only a ctx that ends is an error.
func (r *Reader) pollAll(ctx context.Context, needed *endpoint) error {
	type result struct {
		from *endpoint
		ok   bool
	}
	results := make(chan result, len(r.endpoints))
	for _, e := range r.endpoints {
		if _, fresh := e.lastHead(pollShortest - 1); fresh {
			results <- result{e, true}
			continue
		}
		go func() {
			_, err := r.polls.Do(context.WithoutCancel(ctx), e, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, r.pollEndpoint(ctx, e)
			})
			if err = asFault(r.log, err); err != nil {
				r.log.Debug("heads not read", "chain", r.identity.Name, "node", e.name, "error", err)
			}
			results <- result{e, err == nil}
		}()
	}
	answered := 0
	for range r.endpoints {
		select {
		case result := <-results:
			if result.ok {
				answered++
			}
			if result.from == needed {
				needed = nil
			}
		case <-ctx.Done():
			return errCanceled
		}
		if answered >= r.quorum && needed == nil {
			break
		}
	}
	return nil
}

// pollEndpoint reads one endpoint's heads. Those with an open circuit are left alone;
// those of the wrong chain are polled, so that they can come back.
func (r *Reader) pollEndpoint(ctx context.Context, e *endpoint) error {
	if !e.circuit.admit(r.now(), e.timeout) {
		return fmt.Errorf("circuit is open: %w", chain.ErrUnavailable)
	}
	id, heads := newCall("eth_chainId"), r.newHeadCalls()
	if err := e.do(ctx, nil, heads.latest, heads.finalized, id); err != nil {
		return err
	}
	if err := r.checkChain(e, id); err != nil {
		return err
	}
	_, err := r.recordHead(e, heads)
	return err
}

// headCalls are the two calls by which an endpoint reports how far the chain is.
type headCalls struct {
	latest, finalized *call
	at                time.Time // when they were made: a report is as old as its request
}

func (r *Reader) newHeadCalls() headCalls {
	return headCalls{
		latest:    newCall("eth_getBlockByNumber", "latest", false),
		finalized: newCall("eth_getBlockByNumber", "finalized", false),
		at:        r.now(),
	}
}

// recordHead reads an endpoint's report and keeps it, unless it is implausible.
func (r *Reader) recordHead(e *endpoint, calls headCalls) (h head, err error) {
	if h.latest, h.latestTime, _, err = readHead(calls.latest); err != nil {
		return h, fmt.Errorf("latest: %w", err)
	}
	if h.finalized, h.finalizedTime, h.finalizedHash, err = readHead(calls.finalized); err != nil {
		return h, fmt.Errorf("finalized: %w", err)
	}
	if h.finalized > h.latest {
		return h, fmt.Errorf("finalized is beyond latest: %w", chain.ErrInconsistent)
	}
	h.at = calls.at
	inFuture := h.latestTime > uint64(max(r.now().Add(maxClockSkew).Unix(), 0))
	if inFuture || !e.setHead(h) {
		if !e.distrusted.holds(r.now()) { // else it is logged already
			r.log.Warn("node reports implausible heads", "chain", r.identity.Name, "node", e.name, "latest", h.latest,
				"timestamp", h.latestTime)
			e.distrust()
		}
		return h, fmt.Errorf("latest is too far ahead: %w", chain.ErrInconsistent)
	}
	r.usage.estimateBlockTime(h)
	return h, nil
}

// readHead reads number, timestamp and, where it is reported, hash of a block.
// chain.ErrFinalityUnavailable: none can be read; nodes without finality answer null or an error.
func readHead(c *call) (number, timestamp uint64, hash *common.Hash, err error) {
	var header struct {
		Number    evm.Quantity `json:"number"`
		Timestamp evm.Quantity `json:"timestamp"`
		Hash      *common.Hash `json:"hash"`
	}
	found, err := c.decode(&header)
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

// covers returns nil when, by the report, the chain is finalized up to number. Where number
// is the finalized block itself and its hash is reported, that must be hash.
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

// errThisNodeOnly marks an error that holds by one endpoint's report: by another's the block
// may be final.
var errThisNodeOnly = errors.New("by this node's report")

// requireFinal returns nil when a block of that height may be proven from the
// endpoint: by its own report, and that of a quorum with it, the chain is finalized
// up to there. Before it returns an error it polls the endpoints whose report is
// older than a second.
func (r *Reader) requireFinal(ctx context.Context, e *endpoint, number uint64) error {
	r.usage.record(r.now())
	own, all := r.finalizedBy(e, number)
	if !own || all < r.quorum {
		if err := r.pollAll(ctx, e); err != nil {
			return err
		}
		own, all = r.finalizedBy(e, number)
	}
	switch heads, known := r.agreedHeads(); {
	case own && all >= r.quorum:
		return nil
	case all >= r.quorum:
		return fmt.Errorf("%w: %w", errThisNodeOnly, chain.ErrNotFinalized)
	case !known:
		return r.noHeads()
	default:
		return r.notFinal(number, heads)
	}
}

// notFinal returns the error with an estimate of the time after which a block of that height
// will be final.
func (r *Reader) notFinal(number uint64, heads chain.Heads) error {
	missing := uint64(1)
	if number > heads.Finalized {
		missing = number - heads.Finalized
	}
	return chain.WithRetryAfter(chain.ErrNotFinalized, heads.Wait(missing))
}

// finalizedBy reports whether the chain is finalized up to a height by the endpoint's
// last report, and returns by how many endpoints' reports it is. Old reports do not count.
func (r *Reader) finalizedBy(e *endpoint, number uint64) (own bool, all int) {
	for _, other := range r.endpoints {
		if report, fresh := other.lastHead(r.maxHeadAge); fresh && report.finalized >= number {
			all++
			own = own || other == e
		}
	}
	return own, all
}

// stillFinal returns nil when the endpoint's heads, requested together with the block itself,
// show the block as finalized. They did so before, or the block would not have been
// fetched from it: a single wrong answer makes no block final.
func (r *Reader) stillFinal(e *endpoint, calls headCalls, number uint64, hash common.Hash) error {
	report, err := r.recordHead(e, calls)
	if err == nil {
		err = report.covers(number, hash)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, chain.ErrNotFinalized):
		err = r.notFinal(number, r.headsOf(report.latest, report.finalized))
	}
	return fmt.Errorf("%w: %w", errThisNodeOnly, err)
}

// confirm waits until a quorum of endpoints confirms the block. The endpoint that the
// proof comes from confirms it by the proof, and each of the others by its vote. One has no vote if
// it cannot be used, if its report is old, or if by its report the chain is not finalized up to there.
func (r *Reader) confirm(ctx context.Context, from *endpoint, number uint64, hash common.Hash) error {
	missing := r.quorum - 1
	if missing <= 0 {
		return nil
	}
	var voters []*endpoint
	for _, e := range r.available() {
		report, fresh := e.lastHead(r.maxHeadAge)
		if e != from && fresh && report.finalized >= number && e.circuit.admit(r.now(), e.timeout) {
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
	fault := chain.ErrUnavailable
	switch {
	case dissent:
		fault = chain.ErrQuorum
	case behind:
		fault = chain.ErrNotFinalized
	}
	return fmt.Errorf("%d more nodes have to confirm block %d: %w", missing, number, fault)
}

// vote returns nil when the endpoint, asked for both together, has this block at this height
// and reports it as finalized: what it reported before does not count alone.
func (r *Reader) vote(ctx context.Context, e *endpoint, number uint64, hash common.Hash) error {
	block, heads := newCall("eth_getBlockByNumber", hexNumber(number), false), r.newHeadCalls()
	if err := e.do(ctx, nil, heads.latest, heads.finalized, block); err != nil {
		return err
	}
	var header struct {
		Hash *common.Hash `json:"hash"`
	}
	found, err := block.decode(&header)
	if err != nil {
		return err
	}
	if !found || header.Hash == nil || *header.Hash != hash {
		return chain.ErrQuorum
	}
	report, err := r.recordHead(e, heads)
	if err != nil {
		return err
	}
	return report.covers(number, hash)
}

// checkChain compares the endpoint's chain id with the configured one, and stops or
// resumes the use of the endpoint.
func (r *Reader) checkChain(e *endpoint, c *call) error {
	var id evm.Quantity
	if found, err := c.decode(&id); err != nil || !found {
		return fmt.Errorf("chain id: %w", chain.ErrUnavailable)
	}
	wrong := !id.Is(r.identity.ID)
	if e.wrongChain.Swap(wrong) != wrong {
		r.log.Warn("node's chain id changed", "chain", r.identity.Name, "node", e.name, "wrong", wrong)
	}
	if wrong {
		return chain.ErrWrongChain
	}
	return nil
}

// usage is when the reader was used last, and the chain's block time.
type usage struct {
	last      atomic.Int64  // of a request, Unix nanoseconds; zero = never
	blockTime atomic.Int64  // nanoseconds; zero = unknown
	resumed   chan struct{} // has a value when a request came after an idle time
}

// record notes a request; the first one, and one after an idle time, wakes the poller.
func (u *usage) record(now time.Time) {
	if isIdle(u.last.Swap(now.UnixNano()), now) {
		select {
		case u.resumed <- struct{}{}:
		default: // it is awake
		}
	}
}

// idle reports whether no request came for the time idleAfter.
func (u *usage) idle(now time.Time) bool { return isIdle(u.last.Load(), now) }

func isIdle(last int64, now time.Time) bool {
	return last == 0 || now.UnixNano()-last > int64(idleAfter)
}

// estimateBlockTime takes the time between blocks from a head's own timestamps.
func (u *usage) estimateBlockTime(h head) {
	if h.latest <= h.finalized || h.latestTime <= h.finalizedTime {
		return
	}
	span := time.Duration(h.latestTime-h.finalizedTime) * time.Second
	u.blockTime.Store(int64(min(span/time.Duration(h.latest-h.finalized), time.Minute)))
}

// estimatedBlockTime returns zero when it is not known.
func (u *usage) estimatedBlockTime() time.Duration { return time.Duration(u.blockTime.Load()) }

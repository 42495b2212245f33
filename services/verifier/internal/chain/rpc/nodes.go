package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// reading is a proven block and the endpoint with which the read succeeded. The block may be kept from
// another one.
type reading struct {
	block *evm.ProvenBlock
	from  *endpoint
}

// attempts is how often one read is tried at most while nodes answer.
const attempts = 2

// try reads from an endpoint and, when that fails, once more from another one, unless only
// waiting for finality can help or ctx has ended. As long as the last one could not be used, and not
// because its response was too large or there was no memory for it, or does not have what is read,
// which another one may have kept for longer, the next one is tried. Where only
// one endpoint is configured it is asked again, if next allows it: a balancer may have another node
// behind it. Of two errors the more specific one is returned.
func (r *Reader) try(ctx context.Context, read func(*endpoint) (*evm.ProvenBlock, error)) (reading, error) {
	var tried []*endpoint
	var err, failure error
	for len(tried) < attempts ||
		len(tried) < len(r.endpoints) && (isNoAnswer(failure) || hasNot(failure)) &&
			!isAny(failure, errTooLarge, errNoMemory) {
		e := r.next(tried, failure)
		if e == nil {
			break
		}
		var block *evm.ProvenBlock
		if block, failure = read(e); failure == nil {
			return reading{block, e}, nil
		}
		failure = fmt.Errorf("%s: %w", e.name, failure)
		if isAny(failure, errTimeout, chain.ErrIntegrity, chain.ErrInconsistent, chain.ErrNotCanonical,
			chain.ErrQuorum) {
			e.distrust()
		}
		tried, err = append(tried, e), moreSpecific(err, failure)
		mustWait := isAny(failure, chain.ErrNotFinalized, chain.ErrFinalityUnavailable) && !errors.Is(failure,
			errThisNodeOnly)
		if mustWait || ctx.Err() != nil {
			break
		}
	}
	if err == nil {
		err = r.noneAvailable()
	}
	return reading{}, err
}

// next returns the endpoint to try, nil if there is none. One that was tried is returned again only
// if it is the only one configured, its circuit is closed and it may answer differently at once.
func (r *Reader) next(tried []*endpoint, failure error) *endpoint {
	now := r.now()
	for _, e := range r.available() {
		if !slices.Contains(tried, e) && e.circuit.admit(now, r.timeout) {
			return e
		}
	}
	if len(tried) == 0 || len(r.endpoints) > 1 || !tried[0].circuit.closed(now) || isAny(failure, errTimeout,
		errTooLarge, chain.ErrRateLimited, chain.ErrWrongChain, chain.ErrQuorum, chain.ErrUnsupportedType,
		chain.ErrHeaderUnverifiable, chain.ErrHistoryPruned) {
		return nil
	}
	return tried[0]
}

// isNoAnswer reports whether an error says only that the node cannot be used.
func isNoAnswer(err error) bool {
	return isAny(err, chain.ErrUnavailable, chain.ErrRateLimited, chain.ErrWrongChain)
}

// hasNot reports whether an error says that the node does not have what is read.
func hasNot(err error) bool {
	return isAny(err, chain.ErrTransactionNotFound, chain.ErrReceiptUnavailable, chain.ErrHistoryPruned)
}

// moreSpecific returns the error to report of two attempts: the later one, unless it says no
// more than that this node cannot be used and the earlier is not chain.ErrUnavailable, or the
// earlier shows that the nodes disagree.
func moreSpecific(earlier, later error) error {
	if earlier != nil && (isNoAnswer(later) && !errors.Is(earlier, chain.ErrUnavailable) ||
		errors.Is(earlier, chain.ErrQuorum)) {
		return earlier
	}
	return later
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// available returns the endpoints that may be used now, best first.
func (r *Reader) available() []*endpoint {
	now := r.now()
	return slices.DeleteFunc(r.byTrust(), func(e *endpoint) bool {
		return e.wrongChain.Load() || !e.circuit.closed(now)
	})
}

// byTrust returns all endpoints, best first: those that are trusted, then those that
// lately returned something wrong or nothing in time, and then those with an open
// circuit; each group in the order of the configuration.
func (r *Reader) byTrust() []*endpoint {
	now := r.now()
	var trusted, distrusted, open []*endpoint
	for _, e := range r.endpoints {
		switch {
		case !e.circuit.closed(now):
			open = append(open, e)
		case e.distrusted.holds(now):
			distrusted = append(distrusted, e)
		default:
			trusted = append(trusted, e)
		}
	}
	return slices.Concat(trusted, distrusted, open)
}

// noneAvailable returns why no endpoint may be used.
func (r *Reader) noneAvailable() error {
	if r.allWrongChain() {
		return fmt.Errorf("every node: %w", chain.ErrWrongChain)
	}
	now, limited, soonest := r.now(), false, time.Minute
	for _, e := range r.endpoints {
		if e.wrongChain.Load() {
			continue
		}
		until, byLimit := e.circuit.openUntil()
		limited = limited || byLimit
		soonest = min(soonest, max(until.Sub(now), time.Second))
	}
	if limited {
		return chain.WithRetryAfter(chain.ErrRateLimited, soonest)
	}
	return chain.WithRetryAfter(chain.ErrUnavailable, soonest)
}

func (r *Reader) allWrongChain() bool {
	return !slices.ContainsFunc(r.endpoints, func(e *endpoint) bool { return !e.wrongChain.Load() })
}

// endpoint is one node, or one provider's balancer, and what is known of it.
type endpoint struct {
	*Reader
	name    string // host, numbered where an earlier URL has it too; never the URL, which may hold a key
	url     string
	circuit circuit

	wrongChain atomic.Bool
	distrusted expiring                     // it returned something wrong, or nothing in time
	singly     expiring                     // it does not take batches, or answers only a part of them
	receipts   [receiptsSingly + 1]expiring // by receiptsMethod: it is known to need that one

	mu      sync.Mutex
	head    head // what it reported last
	highest head // the highest that it reported lately; zero = nothing to compare its next report with
}

// expiring is a fact about an endpoint that is believed until some time.
type expiring struct{ until atomic.Int64 } // Unix nanoseconds

func (x *expiring) set(until time.Time) { x.until.Store(until.UnixNano()) }

func (x *expiring) holds(now time.Time) bool { return now.UnixNano() < x.until.Load() }

// capabilityTTL is how long a detected capability of a node holds.
const capabilityTTL = 10 * time.Minute

// receiptsMethod is how the receipts of a block are requested, the best one first.
type receiptsMethod int

const (
	receiptsByHash   receiptsMethod = iota // eth_getBlockReceipts with the block's hash
	receiptsByNumber                       // the same with its number: some ignore hashes
	receiptsSingly                         // eth_getTransactionReceipt for each transaction
)

func (e *endpoint) receiptsMethod() receiptsMethod {
	for method := receiptsSingly; method > receiptsByHash; method-- {
		if e.receipts[method].holds(e.now()) {
			return method
		}
	}
	return receiptsByHash
}

// distrust puts the endpoint behind the trusted ones for a minute.
func (e *endpoint) distrust() { e.distrusted.set(e.now().Add(time.Minute)) }

// head is how far the chain is by the report of one endpoint.
type head struct {
	latest, finalized uint64
	latestTime        uint64       // timestamp of the latest block, Unix seconds
	finalizedTime     uint64       // timestamp of the finalized block, Unix seconds
	finalizedHash     *common.Hash // nil where it is not reported
	at                time.Time    // when it was requested; zero = never
}

// Bounds of a plausible head. A report of a latest block from the future, or of more new
// blocks than the time between them allows, is of another chain or an error.
const (
	maxClockSkew      = 2 * time.Minute
	maxBlocksASecond  = 100
	maxBlocksAtOnce   = 1_000 // blocks that need no time, for development chains
	blocksAtOnceSlack = maxBlocksAtOnce / maxBlocksASecond
)

// tooFarAhead reports whether to is further ahead of from than maxBlocksASecond and maxBlocksAtOnce allow.
func tooFarAhead(from, to head) bool {
	if to.latest <= from.latest {
		return false
	}
	seconds := uint64(0)
	if to.latestTime > from.latestTime {
		seconds = to.latestTime - from.latestTime
	}
	return (to.latest-from.latest)/maxBlocksASecond > seconds+blocksAtOnceSlack
}

// setHead replaces what the endpoint reported before, unless that is a later report. It
// returns false, and keeps the old report, when the new one is implausibly far ahead.
//
// The report is compared with the highest one, if that is at most maxHeadAge older. The first
// report, and the first after maxHeadAge without one, is not taken as the highest; the next one
// is, if the two can be of one chain. So a wrong first report does not outweigh right ones.
func (e *endpoint) setHead(h head) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.at.Before(e.head.at) {
		return true // there is a later report
	}
	comparable := !e.highest.at.IsZero() && h.at.Sub(e.highest.at) <= e.maxHeadAge
	switch {
	case comparable && tooFarAhead(e.highest, h):
		return false
	case comparable && h.latest >= e.highest.latest:
		e.highest = h
	case comparable: // a step back
	case e.head.at.IsZero() || h.at.Sub(e.head.at) > e.maxHeadAge || tooFarAhead(e.head, h) || tooFarAhead(h, e.head):
		e.highest = head{}
	default:
		e.highest = h
	}
	e.head = h
	return true
}

// lastHead returns what the endpoint reported last; fresh reports whether that is within
// maxAge and the endpoint serves the right chain.
func (e *endpoint) lastHead(maxAge time.Duration) (h head, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.head, !e.wrongChain.Load() && !e.head.at.IsZero() && e.now().Sub(e.head.at) <= maxAge
}

// When a circuit opens, and for how long.
const (
	circuitFailures = 3
	circuitShortest = 2 * time.Second
	circuitLongest  = time.Minute
)

// circuit keeps requests away from an endpoint that fails. It opens after three exchanges
// in a row that broke off or had a status such as 401 or 503, for a time that doubles with
// every further one, up to circuitLongest; then a single exchange may try. A rate limit
// opens it at once for as long as the endpoint requests, at most a minute, and for five
// seconds where it names no time.
//
// Wrong answers do not open it: a request for a block that cannot be proven must not
// end the service for others.
type circuit struct {
	mu       sync.Mutex
	failures int
	until    time.Time
	limited  bool // open because of a rate limit
}

func (c *circuit) record(now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	// an answer from before the limit changes nothing
	case isAny(err, errCanceled, errNoMemory), c.limited && now.Before(c.until):
	case err == nil, errors.Is(err, errTooLarge), errors.Is(err, errBatchRefused):
		c.failures, c.until, c.limited = 0, time.Time{}, false
	case errors.Is(err, chain.ErrRateLimited):
		seconds, _ := chain.RetryAfter(err)
		c.until, c.limited = now.Add(time.Duration(max(seconds, 1))*time.Second), true
	default:
		if c.failures++; c.failures < circuitFailures {
			return
		}
		pause := min(circuitShortest<<min(c.failures-circuitFailures, 5), circuitLongest)
		c.until, c.limited = now.Add(pause), false
	}
}

// admit reports whether an exchange may go out. After the time of a circuit that failures
// opened it admits one, and no further one for the time trial, unless that one closes it.
func (c *circuit) admit(now time.Time, trial time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.until) {
		return false
	}
	if c.failures >= circuitFailures {
		c.until = now.Add(trial)
	}
	return true
}

// closed reports, without counting as a trial, whether an exchange would go out.
func (c *circuit) closed(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !now.Before(c.until)
}

// openUntil returns when the next exchange may go out, and whether a rate limit is
// the reason.
func (c *circuit) openUntil() (until time.Time, limited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until, c.limited
}

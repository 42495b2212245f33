package rpc

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// How receipts of a block are asked for; a node is asked the best way first.
type receiptsWay int

const (
	receiptsByHash   receiptsWay = iota // eth_getBlockReceipts with the block's hash
	receiptsByNumber                    // the same with its number: some ignore hashes
	receiptsSingly                      // eth_getTransactionReceipt for each transaction
)

// relearn is how long what was learnt about a node's manners holds.
const relearn = 10 * time.Minute

// endpoint is one node (or one provider's balancer) and what is known of it.
type endpoint struct {
	name    string // host, for logs and metrics; never the URL, which may hold a key
	url     string
	timeout time.Duration
	client  *http.Client
	hooks   Hooks
	log     *slog.Logger
	now     func() time.Time
	circuit circuit

	mu           sync.Mutex
	singlesUntil time.Time // it does not take batches
	way          receiptsWay
	wayUntil     time.Time
	wrongChain   bool
	suspectUntil time.Time // it told something that does not hold, or nothing in time
	head         head      // what it said last
	mark         head      // the highest that it said lately; zero = nothing to hold its next word against
}

// head is how far one endpoint says that the chain is.
type head struct {
	latest, finalized uint64
	latestTime        uint64       // timestamp of the latest block, seconds
	finalizedTime     uint64       // timestamp of the finalized block, seconds
	finalizedHash     *common.Hash // nil where it is not told
	at                time.Time    // when it was asked; zero = never
}

func (e *endpoint) wantsSingles() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now().Before(e.singlesUntil)
}

func (e *endpoint) rememberSingles() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.singlesUntil = e.now().Add(relearn)
}

func (e *endpoint) receiptsWay() receiptsWay {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now().After(e.wayUntil) {
		return receiptsByHash
	}
	return e.way
}

func (e *endpoint) rememberWay(way receiptsWay) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.way, e.wayUntil = way, e.now().Add(relearn)
}

// setWrongChain drops the endpoint, or takes it back when it serves the right
// chain again; it tells whether that is news.
func (e *endpoint) setWrongChain(wrong bool) (changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed = e.wrongChain != wrong
	e.wrongChain = wrong
	return changed
}

func (e *endpoint) isWrongChain() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wrongChain
}

// suspect puts the endpoint behind the others for a while.
func (e *endpoint) suspect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.suspectUntil = e.now().Add(time.Minute)
}

func (e *endpoint) suspected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now().Before(e.suspectUntil)
}

// saw keeps what the endpoint says now as its word, in place of what it said
// before: an error is forgotten as soon as the endpoint is right again. It
// reports false, and keeps the word, when no chain can have come as far.
//
// What the answer is held against is the highest word of the last maxAge. The
// first one of all becomes that only when a second one follows from it, so that
// an error at the start is not held against what is right.
func (e *endpoint) saw(h head, maxAge time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.at.Before(e.head.at) {
		return true // there is a later word
	}
	held := !e.mark.at.IsZero() && h.at.Sub(e.mark.at) <= maxAge
	switch {
	case held && leaps(e.mark, h):
		return false
	case held && h.latest >= e.mark.latest:
		e.mark = h
	case held: // a step back
	case e.head.at.IsZero() || h.at.Sub(e.head.at) > maxAge || leaps(e.head, h) || leaps(h, e.head):
		e.mark = head{}
	default:
		e.mark = h
	}
	e.head = h
	return true
}

// word returns what the endpoint said last, and whether it said so within maxAge
// and of the right chain.
func (e *endpoint) word(maxAge time.Duration) (h head, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.head, !e.wrongChain && !e.head.at.IsZero() && e.now().Sub(e.head.at) <= maxAge
}

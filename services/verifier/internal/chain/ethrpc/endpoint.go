package ethrpc

import (
	"net/http"
	"sync"
	"time"
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
	now     func() time.Time
	circuit circuit

	mu           sync.Mutex
	singlesUntil time.Time // it does not take batches
	way          receiptsWay
	wayUntil     time.Time
	wrongChain   bool
	suspectUntil time.Time // it told something that does not hold, or nothing in time
	head         head
}

// head is how far one endpoint says that the chain is.
type head struct {
	latest, finalized uint64
	latestTime        uint64    // timestamp of the latest block, seconds
	finalizedTime     uint64    // timestamp of the finalized block, seconds
	at                time.Time // when it last said so; zero = never
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

// saw records the endpoint's heads. A finalized block that it said before and
// no longer says leaves the record as it is, and so lets it grow old.
func (e *endpoint) saw(h head) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.finalized < e.head.finalized {
		return
	}
	h.latest = max(h.latest, e.head.latest)
	e.head = h
}

func (e *endpoint) lastHead() head {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.head
}

package rpc_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// noFinality are ways in which a node does not report what is finalized.
var noFinality = map[string]answer{
	"null":          constant(nil),
	"geth's error":  failing(-32000, "finalized block not found"),
	"invalid tag":   failing(-32602, "invalid argument 0: hex string without 0x prefix"),
	"no number":     constant(map[string]any{"timestamp": "0x1"}),
	"beyond latest": constant(map[string]any{"number": "0xffffffff", "timestamp": "0x1"}),
}

func failing(code int, message string) answer {
	return func(recorded.Request, any, *recorded.Error) (any, *recorded.Error) {
		return nil, &recorded.Error{Code: code, Message: message}
	}
}

// onTag changes the answer to eth_getBlockByNumber for a tag.
func onTag(tag string, change answer) chaintest.Script {
	return onCall("eth_getBlockByNumber", func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		if string(c.Params[0]) == `"`+tag+`"` {
			return change(c, result, err)
		}
		return result, err
	})
}

func TestFinality_WithoutItThereIsNoReceipt(t *testing.T) {
	for name, change := range noFinality {
		t.Run("from the start: "+name, func(t *testing.T) {
			node := baseNode(t)
			node.Play(onTag("finalized", change))
			r := open(t, rpc.Options{Chain: config(node)})
			_, err := r.Read(t.Context(), baseTransaction)
			wantFault(t, err, chain.ErrFinalityUnavailable)
		})
		t.Run("later, for a proven block: "+name, func(t *testing.T) {
			node, time := baseNode(t), newClock()
			r := open(t, rpc.Options{Chain: config(node), Now: time.Now})
			if _, err := r.Read(t.Context(), baseTransaction); err != nil {
				t.Fatal(err)
			}
			node.Play(onTag("finalized", change))
			time.Advance(rpc.DefaultMaxHeadAge)
			if _, err := r.Read(t.Context(), baseTransaction); err != nil {
				t.Errorf("within the bound: %v", err)
			}
			time.Advance(1)
			_, err := r.Read(t.Context(), baseTransaction)
			wantFault(t, err, chain.ErrFinalityUnavailable)
			if _, ok := chain.RetryAfter(err); !ok {
				t.Error("has no time to retry after")
			}
			node.Play(chaintest.Script{})
			if _, err := r.Read(t.Context(), baseTransaction); err != nil {
				t.Errorf("when finality is back: %v", err)
			}
		})
	}
}

// TestHeads_AreTheNewestReport of a node, whether it is higher or lower than the one
// before: a wrong one is forgotten with the next.
func TestHeads_AreTheNewestReport(t *testing.T) {
	node, time := baseNode(t), newClock()
	r := open(t, rpc.Options{Chain: config(node), Now: time.Now})
	for i, at := range []uint64{300, 200, 400, 350, 500} { // a balancer with two heads
		node.SetHeads(baseBlock+at, baseBlock+100-uint64(i))
		time.Advance(rpc.DefaultMaxHeadAge + 1)
		heads, err := r.Heads(t.Context())
		if err != nil || heads.Latest != baseBlock+at || heads.Finalized != baseBlock+100-uint64(i) {
			t.Errorf("%+v, %v", heads, err)
		}
	}
	node.SetHeads(baseBlock+700, baseBlock-1)
	time.Advance(rpc.DefaultMaxHeadAge + 1)
	_, err := r.Read(t.Context(), baseTransaction)
	wantFault(t, err, chain.ErrNotFinalized)
	node.SetHeads(baseBlock+700, baseBlock)
	time.Advance(1e9)
	if _, err := r.Read(t.Context(), baseTransaction); err != nil {
		t.Errorf("a second later: %v", err)
	}
}

func TestFinality_WhatIsNotFinalHasToWait(t *testing.T) {
	node, time := baseNode(t), newClock()
	node.SetHeads(baseBlock+10, baseBlock-30)
	r := open(t, rpc.Options{Chain: config(node), Now: time.Now})
	node.Forget()
	_, err := r.Read(t.Context(), baseTransaction)
	wantFault(t, err, chain.ErrNotFinalized)
	if seconds, _ := chain.RetryAfter(err); seconds != 60 { // 30 blocks of 2 s
		t.Errorf("retry after %d s", seconds)
	}
	if got := node.Calls("eth_getBlockReceipts"); got != 0 {
		t.Error("fetched a block that is not final")
	}
	// The poller has not seen it yet, but the chain is final now.
	node.SetHeads(baseBlock+50, baseBlock)
	time.Advance(2e9)
	if _, err := r.Read(t.Context(), baseTransaction); err != nil {
		t.Error(err)
	}
}

func TestHeads_AreReadOnceForAllCallersThatWait(t *testing.T) {
	node, time := baseNode(t), newClock()
	r := open(t, rpc.Options{Chain: config(node), Now: time.Now})
	time.Advance(rpc.DefaultMaxHeadAge + 1)
	node.Play(chaintest.Script{Delay: 100e6})
	node.Forget()
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if _, err := r.Heads(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := len(node.Exchanges()); got != 1 {
		t.Errorf("%d exchanges", got)
	}
}

func TestHeads_ThePollerKeepsThemFresh(t *testing.T) {
	node := baseNode(t)
	c := config(node)
	c.MaxHeadAge = 2 * time.Second
	r := open(t, rpc.Options{Chain: c})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	node.SetHeads(baseBlock+900, baseBlock+800)
	deadline := time.Now().Add(10 * time.Second)
	for {
		heads, err := r.Heads(t.Context())
		if err == nil && heads.Latest == baseBlock+900 && heads.Finalized == baseBlock+800 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %+v, %v", heads, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	<-ended
}

func TestNode_OfAnotherChainStopsTheStart(t *testing.T) {
	good, bad := baseNode(t), baseNode(t)
	bad.Play(onCall("eth_chainId", constant("0x1")))
	_, err := rpc.Open(t.Context(), rpc.Options{Chain: config(good, bad)})
	wantFault(t, err, chain.ErrWrongChain)
}

func TestNode_ThatIsDownDoesNotStopTheStart(t *testing.T) {
	good, away := baseNode(t), baseNode(t)
	away.Play(status(http.StatusBadGateway))
	r := open(t, rpc.Options{Chain: config(away, good)})
	if _, err := r.Read(t.Context(), baseTransaction); err != nil {
		t.Error(err)
	}
}

func TestNode_OfAnotherChainIsNotUsedUntilItIsBack(t *testing.T) {
	node, time := baseNode(t), newClock()
	r := open(t, rpc.Options{Chain: config(node), Now: time.Now})
	node.Play(onCall("eth_chainId", constant("0x1")))
	time.Advance(rpc.DefaultMaxHeadAge + 1)
	_, err := r.Heads(t.Context())
	wantFault(t, err, chain.ErrWrongChain)
	node.Forget()
	_, err = r.Read(t.Context(), baseTransaction)
	wantFault(t, err, chain.ErrWrongChain)
	if got := node.Calls("eth_getTransactionByHash"); got != 0 {
		t.Error("called a dropped endpoint for a transaction")
	}
	node.Play(chaintest.Script{})
	if _, err := r.Heads(t.Context()); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	if _, err := r.Read(t.Context(), baseTransaction); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

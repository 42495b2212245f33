package rpc_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

// holding keeps exchanges with so many calls waiting until they are cancelled or
// let go, and counts those that wait.
type holding struct {
	calls   int
	waiting chan struct{} // one value for each exchange that began
	left    chan struct{} // one for each that was cancelled
	open    chan struct{} // closed releases all
}

func hold(calls int) *holding {
	return &holding{calls, make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})}
}

func (h *holding) script() chaintest.Script {
	return chaintest.Script{HTTP: func(_ http.ResponseWriter, r *http.Request, calls []recorded.Request) bool {
		if len(calls) != h.calls {
			return false
		}
		h.waiting <- struct{}{}
		select {
		case <-r.Context().Done():
			h.left <- struct{}{}
			return true
		case <-h.open:
			return false
		}
	}}
}

// Calls of an exchange: where a transaction is, and its block with the receipts.
const (
	locating = 3
	fetching = 4
)

func within(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("still waiting: " + what)
	}
}

// TestAbandoned_CallersCauseNoExchange: the exchange under way is broken off,
// and no other one begins.
func TestAbandoned_CallersCauseNoExchange(t *testing.T) {
	for name, c := range map[string]struct{ calls, exchanges int }{
		"while the transaction is located": {locating, 2}, // the heads before it
		"while its block is fetched":       {fetching, 3},
	} {
		t.Run(name, func(t *testing.T) {
			node := baseNode(t)
			r := open(t, rpc.Options{Chain: config(node)})
			held := hold(c.calls)
			node.Play(held.script())
			var group sync.WaitGroup
			ctx, hangUp := context.WithCancel(t.Context())
			for range 5 {
				group.Go(func() {
					_, err := r.Read(ctx, baseTransaction)
					wantFault(t, err, chain.ErrUnavailable)
				})
			}
			within(t, held.waiting, "the exchange")
			hangUp()
			within(t, held.left, "its end")
			group.Wait()
			close(held.open)
			for len(node.Exchanges()) < c.exchanges { // the node counts an exchange when it has ended
				time.Sleep(time.Millisecond)
			}
			node.Forget()
			if _, err := r.Read(t.Context(), baseTransaction); err != nil { // goes through all that was begun before
				t.Errorf("the next caller: %v", err)
			}
			if got := len(node.Exchanges()); got != 2 {
				t.Errorf("%d exchanges for one caller", got)
			}
		})
	}
}

// TestAbandoned_CallersHoldNoMemory: fetches that hang, and those that wait for
// their share of the budget, end with their callers, and the next one is served.
func TestAbandoned_CallersHoldNoMemory(t *testing.T) {
	slow, quick := baseNode(t), baseNode(t)
	memory := rpc.NewMemory(1, 16<<20) // two fetches at once
	held := hold(fetching)
	var group sync.WaitGroup
	ctx, hangUp := context.WithCancel(t.Context())
	var readers []*rpc.Reader
	for range 8 { // readers of their own share the memory alone
		readers = append(readers, open(t, rpc.Options{Chain: config(slow), Memory: memory}))
	}
	last := open(t, rpc.Options{Chain: config(quick), Memory: memory})
	slow.Play(held.script())
	for _, r := range readers {
		group.Go(func() {
			_, err := r.Read(ctx, baseTransaction)
			wantFault(t, err, chain.ErrUnavailable)
		})
	}
	within(t, held.waiting, "the first fetch")
	served := make(chan struct{})
	go func() {
		defer close(served)
		if _, err := last.Read(t.Context(), baseTransaction); err != nil {
			t.Errorf("the caller that stayed: %v", err)
		}
	}()
	hangUp()
	within(t, served, "the caller that stayed")
	group.Wait()
}

// TestCall_APanicWhileReadingIsItsError, wherever it comes: in the proof, in an
// exchange of a batch or of single calls, in a vote, in a look at the heads.
func TestCall_APanicWhileReadingIsItsError(t *testing.T) {
	var armed atomic.Value
	armed.Store("")
	panics := func(where string) {
		if armed.Load() == where {
			panic("in " + where)
		}
	}
	for name, script := range map[string]chaintest.Script{"batches": {}, "single calls": without(true, http.StatusBadRequest)} {
		t.Run(name, func(t *testing.T) {
			a, b, now := baseNode(t), baseNode(t), newClock()
			c := config(a, b)
			c.Quorum = 2
			r := open(t, rpc.Options{Chain: c, Now: now.Now, Memory: rpc.NewMemory(1, 0), Hooks: rpc.Hooks{
				Proof: func(int, time.Duration, error) { panics("proof") },
				RPC:   func(_, method string, _ time.Duration, _ error) { panics(method) },
			}})
			a.Play(script)
			b.Play(script)
			for _, where := range []string{"proof", "batch", "eth_getTransactionByHash", "eth_getBlockByNumber", "eth_getBlockReceipts", "eth_chainId"} {
				now.Advance(rpc.DefaultMaxHeadAge + 1)
				armed.Store(where)
				if _, err := r.Read(t.Context(), baseTransaction); err != nil {
					var fault *chain.Fault
					if !errors.As(err, &fault) || !fault.Retryable {
						t.Errorf("a panic in %s: %v", where, err)
					}
				} else if where == "proof" {
					t.Error("the proof did not panic")
				}
				armed.Store("")
				now.Advance(rpc.DefaultMaxHeadAge + 1)
				if _, err := r.Read(t.Context(), baseTransaction); err != nil {
					t.Errorf("after a panic in %s: %v", where, err)
				}
			}
		})
	}
}

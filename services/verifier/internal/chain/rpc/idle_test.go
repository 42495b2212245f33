package rpc

import (
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// calls counts the calls of the first node.
func (w *finalityWorld) calls() (count int) {
	for _, exchange := range w.nodes[0].Exchanges() {
		count += len(exchange.Methods)
	}
	return count
}

// pass makes the poller do what Run does for so long.
func (w *finalityWorld) pass(d time.Duration) {
	end := w.clock().Add(d)
	for !w.clock().Add(w.reader.pollInterval()).After(end) {
		w.advanceClock(w.reader.pollInterval())
		w.reader.poll(w.Context())
	}
	w.advanceClock(end.Sub(w.clock()))
}

// TestIdle_ReaderSeldomPolls: in two minutes without a request, from the
// start on, a node is called few times; its last report never gets older than the bound,
// so that metrics are true and the first request waits for no look at the heads.
func TestIdle_ReaderSeldomPolls(t *testing.T) {
	w := openFinality(t, 1, 1, 0)
	w.advance(1)
	busy := func() int { // what two minutes cost while requests come
		w.nodes[0].Forget()
		for range 60 {
			w.reader.usage.record(w.clock())
			w.pass(2 * time.Second)
		}
		return w.calls()
	}
	for _, after := range []string{"the start", "requests"} {
		w.nodes[0].Forget()
		if after == "requests" {
			w.advanceClock(idleAfter + 1)
		}
		w.pass(2 * time.Minute)
		if !w.reader.HasHeads() {
			t.Error("the metrics report that no quorum is heard")
		}
		idle := w.calls()
		t.Logf("two idle minutes after %s: %d calls", after, idle)
		if idle > 9 {
			t.Errorf("two idle minutes after %s: %d calls", after, idle)
		}
		w.nodes[0].Forget()
		if _, err := w.reader.Heads(t.Context()); err != nil || w.calls() != 0 {
			t.Errorf("the first request called %d times: %v", w.calls(), err)
		}
		t.Logf("two busy minutes: %d calls", busy())
	}
}

// TestIdle_TheFirstRequestAfterwardsIsNotStale, whenever it comes, and costs one
// exchange about the heads at most; a probe of readiness does not keep a node busy.
func TestIdle_TheFirstRequestAfterwardsIsNotStale(t *testing.T) {
	for _, pause := range []time.Duration{2 * time.Second, DefaultMaxHeadAge - 1, DefaultMaxHeadAge + 1, 24 * time.Hour} {
		w := openFinality(t, 1, 1, 0)
		w.advanceClock(pause) // without a poller
		w.nodes[0].SetHeads(baseBlock+305, baseBlock+5)
		w.nodes[0].Forget()
		s, err := w.read()
		if err != nil || len(w.nodes[0].Exchanges()) > 3 {
			t.Errorf("after %v: %d exchanges, %v", pause, len(w.nodes[0].Exchanges()), err)
		}
		if s.Heads != (chain.Heads{Latest: baseBlock + 305, Finalized: baseBlock + 5, BlockTime: 2 * time.Second}) {
			t.Errorf("after %v: %+v", pause, s.Heads)
		}
		select {
		case <-w.reader.usage.resumed: // by the request: the poller is quick again
		default:
			t.Error("the poller sleeps on")
		}
		w.advanceClock(idleAfter + 1)
		if _, err := w.reader.Reached(t.Context()); err != nil || !w.reader.usage.idle(w.clock()) {
			t.Errorf("a probe counts as a request, %v", err)
		}
	}
}

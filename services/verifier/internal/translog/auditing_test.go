package translog_test

import (
	"context"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

// run runs the log until the test ends.
func (n *node) run() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	n.Cleanup(func() {
		stop()
		<-ended
	})
}

// waitFor waits until something holds.
func (n *node) waitFor(what string, holds func() bool) {
	n.Helper()
	for until := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			n.Fatalf("%s does not come", what)
		}
	}
}

// audited reports whether there was an audit at this moment of the clock, with an outcome.
func (n *node) audited(outcome bool) func() bool {
	return func() bool {
		at, ok := n.LastAudit()
		return at.Equal(n.clock()) && ok == outcome
	}
}

func TestRun_AuditsAgainWhatWasSoldWithoutTheLogJustBeforeItsStart(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 0)
		database := url()
		n := w.open(database, w.policy(0))
		plain, err := ledger.Open(t.Context(), database, ledger.Options{Now: w.clock})
		w.must(err)
		t.Cleanup(func() { _ = plain.Close() })
		(&node{world: w, ledger: plain}).sell("just before")
		w.advance(time.Second)
		n.run()
		n.waitFor("the first audit", n.audited(true)) // too early to look for it
		w.advance(2 * time.Minute)
		n.waitFor("the second audit, which finds it", n.audited(false))
		n.waitFor("its proof", func() bool {
			_, err := n.Proof(t.Context(), 1, n.leaf("just before"))
			return err == nil
		})
		w.advance(2 * time.Minute)
		n.waitFor("the third audit, which is clean", n.audited(true))
		w.advance(time.Minute)
		(&node{world: w, ledger: plain}).sell("by a replica that was replaced late")
		w.advance(2 * time.Hour)
		n.waitFor("the audit an hour later", n.audited(false))
	})
}

func TestRun_AuditsWhenTheLogGoesOn(t *testing.T) {
	w := newWorld(t, 1)
	n, whole := behind(w, func() string { return "sqlite::memory:" }, 10, 30, w.policy(1))
	n.run()
	n.waitFor("the audit of a ledger that is behind its witness", n.audited(false))
	n.waitFor("the freeze", func() bool { return n.head().Frozen == translog.FrozenBehind })
	_, err := n.Recover(t.Context(), whole.fetch(1), -1)
	w.must(err)
	n.waitFor("the audit of what was recovered", n.audited(true))
}

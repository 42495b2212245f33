package translog_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

func TestStep_SignsNothingThatFellBackAfterItWasPlaced(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 0)
		store := &fallback{}
		var after func()
		n := w.open(url(), w.policy(0), func(o *translog.Options) {
			store.Store, o.Store = o.Store, store
			o.At = func(p translog.Point) {
				if p == translog.Sequenced && after != nil {
					after()
				}
			}
		})
		n.queue(names(0, 30)...)
		n.step()
		entries, err := n.store.Entries(t.Context(), 1, 0, 20)
		w.must(err)
		older := w.open(url(), w.policy(0))
		_, err = older.store.Extend(t.Context(), 1, 0, entries)
		w.must(err)
		after = func() { store.Store = older.store }
		n.queue("new")
		if err := n.Step(t.Context()); !errors.Is(err, translog.ErrFrozen) {
			t.Errorf("the step returned %v", err)
		}
		if head := older.head(); head.Frozen != translog.FrozenMark {
			t.Errorf("%+v", head)
		}
		if _, err := older.Checkpoint(t.Context(), 1); !errors.Is(err, translog.ErrNothing) {
			t.Errorf("the older tree is published: %v", err)
		}
	})
}

// Another process may have found after the places were given what forbids a signature.
func TestStep_SignsNothingThatAnotherProcessHasFrozenOrClosed(t *testing.T) {
	for what, change := range map[string]func(n *node) error{
		"frozen": func(n *node) error { return n.store.Freeze(context.Background(), 1, translog.FrozenFork) },
		"closed": func(n *node) error {
			origin, vkey, err := translog.Name(host, seeded("log"), 2)
			if err != nil {
				return err
			}
			return n.store.EndLog(context.Background(), 1, nil, translog.Head{Log: 2, Origin: origin, VKey: vkey})
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 0)
			var n *node
			var reached []translog.Point
			n = w.open("sqlite::memory:", w.policy(0), func(o *translog.Options) {
				o.At = func(p translog.Point) {
					if reached = append(reached, p); p == translog.Sequenced {
						w.must(change(n))
					}
				}
			})
			n.queue("a")
			_ = n.Step(t.Context())
			if !slices.Equal(reached, []translog.Point{translog.Sequenced}) {
				t.Errorf("it has reached %q", reached)
			}
		})
	}
}

// A process that dies after a witness has the signature must find it in the mark.
func TestStep_WritesTheMarkBeforeAWitnessHasTheSignature(t *testing.T) {
	w := newWorld(t, 1)
	mark := filepath.Join(t.TempDir(), "mark")
	with := func(o *translog.Options) { o.Mark = mark }
	n := w.open("sqlite::memory:", w.policy(1), with)
	n.queue("a")
	n.step()
	n.queue("b")
	_, _, err := n.store.Sequence(t.Context(), 10) // and the process ends
	w.must(err)
	o := n.Options
	again, err := translog.New(o)
	w.must(err)
	var marked []int64
	w.witnesses[0].answers(func(out http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(mark)
		if err != nil {
			t.Error(err)
		}
		c, err := receiptlog.ParseCheckpoint(string(text))
		if err != nil {
			t.Error(err)
		}
		marked = append(marked, c.Size)
		w.witnesses[0].Witness.ServeHTTP(out, r)
	})
	w.must(again.Step(t.Context()))
	if len(marked) == 0 || slices.Min(marked) != 2 {
		t.Errorf("when the witness was asked about 2 entries, the mark had %v", marked)
	}
}

// The ledger may be another one since.
func TestStep_AsksTheWitnessesAgainWhenAnotherProcessHasResumedTheLog(t *testing.T) {
	w := newWorld(t, 1)
	n := w.open("sqlite::memory:", w.policy(1))
	n.queue("a")
	n.step()
	w.must(n.store.Freeze(t.Context(), 1, translog.FrozenRestored))
	n.wantFrozen(translog.FrozenRestored)
	w.must(n.store.Resume(t.Context(), 1, 1, translog.FrozenRestored))
	w.witnesses[0].answers(status(500))
	n.queue("b")
	if err := n.Step(t.Context()); err == nil || n.head().Size != 1 {
		t.Errorf("it goes on with %d entries, %v", n.head().Size, err)
	}
}

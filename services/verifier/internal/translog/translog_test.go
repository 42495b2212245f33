package translog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

func TestSequence_WhatWasQueuedHasAWitnessedProof(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 3)
		n := w.open(url(), w.policy(3)) // all: so none is left to answer after a step
		ctx := t.Context()
		if _, err := n.Proof(ctx, 1, n.leaf("a")); !errors.Is(err, translog.ErrUnknownLeaf) {
			t.Errorf("before it is queued: %v", err)
		}
		n.queue("a")
		if _, err := n.Proof(ctx, 1, n.leaf("a")); !errors.Is(err, translog.ErrPending) {
			t.Errorf("while it is queued: %v", err)
		}
		n.step()
		if c := n.wantProof(1, "a"); c.Size != 1 || len(c.Cosignatures) != 3 {
			t.Errorf("%+v", c)
		}
		asked := w.witnesses[0].asked.Load()
		n.step()
		if got := w.witnesses[0].asked.Load(); got != asked {
			t.Error("a witness is asked although nothing is new")
		}
		w.advance(time.Hour)
		n.step()
		if got := w.witnesses[0].asked.Load(); got == asked {
			t.Error("a checkpoint of an hour ago is not published again")
		}
		n.wantProof(1, "a")
		if _, err := n.Proof(ctx, 2, n.leaf("a")); !errors.Is(err, translog.ErrNothing) {
			t.Errorf("of a generation that is not there: %v", err)
		}
	})
}

func TestTiles_AreReadByStrangers(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		n := w.open(url(), w.policy(1))
		ctx := t.Context()
		old := receiptlog.Checkpoint{Origin: n.head().Origin}
		for _, size := range []int{1, 255, 256, 257, 600} {
			n.queue(names(int(old.Size), size)...)
			n.step()
			note, err := n.Checkpoint(ctx, 1)
			w.must(err)
			c, err := n.readers().Open(note)
			w.must(err)
			tree, err := receiptlog.NewTree(c.Checkpoint, n.fetch(1))
			w.must(err)
			w.must(tree.Continues(ctx, old))
			for bundle := int64(0); bundle*256 < c.Size; bundle++ {
				_, err := tree.Entries(ctx, bundle)
				w.must(err)
			}
			if c.Size != int64(size) {
				t.Errorf("%d entries, want %d", c.Size, size)
			}
			old = c.Checkpoint
		}
		n.queue("later")
		w.must(func() error { _, _, err := n.store.Sequence(ctx, 10); return err }())
		for _, path := range []string{"tile/entries/002.p/89", "tile/0/002.p/89", "tile/0/003.p/1"} {
			tile, err := receiptlog.ParseTile(path)
			w.must(err)
			if _, err := n.Tile(ctx, 1, tile); !errors.Is(err, translog.ErrNothing) {
				t.Errorf("%s, which is not published: %v", path, err)
			}
		}
	})
}

func TestWitness_ThatFailsDoesNotKeepUpTheOthers(t *testing.T) {
	for name, answer := range map[string]func(w *world) http.HandlerFunc{
		"is away": func(*world) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		},
		"does not know us": func(*world) http.HandlerFunc { return status(404) },
		"has another key":  func(*world) http.HandlerFunc { return status(403) },
		"is broken":        func(*world) http.HandlerFunc { return status(500) },
		"names no size":    func(*world) http.HandlerFunc { return status(400) },
		"signs nothing": func(*world) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "— w0.example AAAA") }
		},
		"signs with another key": func(w *world) http.HandlerFunc {
			return func(out http.ResponseWriter, r *http.Request) { w.witnesses[1].Witness.ServeHTTP(out, r) }
		},
		"signs another checkpoint": func(w *world) http.HandlerFunc {
			line, err := receiptlog.Checkpoint{Origin: host + "/v1/log/1", Size: 7}.Cosign(w.witnesses[0].signer)
			w.must(err)
			return func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write(line) }
		},
		"answers without end": func(*world) http.HandlerFunc {
			return func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write(make([]byte, 1<<20)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			n := w.open("sqlite::memory:", w.policy(2))
			w.witnesses[0].answers(answer(w))
			n.queue("a")
			n.step()
			if c := n.wantProof(1, "a"); len(c.Cosignatures) != 2 || c.Cosignatures[0].Witness == "w0" {
				t.Errorf("%+v", c)
			}
			w.witnesses[0].answers(nil) // it is back, and behind
			w.advance(time.Hour)
			n.queue("b")
			n.step()
			n.wantProof(1, "b")
		})
	}
}

func TestWitness_WithoutAQuorumTheOldCheckpointIsServed(t *testing.T) {
	w := newWorld(t, 2)
	n := w.open("sqlite::memory:", w.policy(2))
	n.queue("a")
	n.step()
	w.witnesses[1].answers(status(500))
	n.queue("b")
	if err := n.Step(t.Context()); err == nil || errors.Is(err, translog.ErrFrozen) {
		t.Errorf("the step returned %v", err)
	}
	if c := n.wantProof(1, "a"); c.Size != 1 {
		t.Errorf("%d entries are served", c.Size)
	}
	if _, err := n.Proof(t.Context(), 1, n.leaf("b")); !errors.Is(err, translog.ErrPending) {
		t.Errorf("without a quorum: %v", err)
	}
	if n.head().Size != 2 {
		t.Error("the entry has no place")
	}
	asked := w.witnesses[1].asked.Load()
	_ = n.Step(t.Context())
	if got := w.witnesses[1].asked.Load(); got != asked {
		t.Error("a witness that fails is asked again at once")
	}
	w.witnesses[1].answers(nil)
	w.advance(time.Hour)
	n.step()
	n.wantProof(1, "b")
}

// meanwhile is a store to which something happens before it publishes.
type meanwhile struct {
	translog.Store
	before func()
}

func (m *meanwhile) Publish(ctx context.Context, log, size int64, note func([]byte) []byte) error {
	m.before()
	return m.Store.Publish(ctx, log, size, note)
}

func TestWitness_ItsCosignatureStaysThatAnotherProcessPublishesMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w, database := newWorld(t, 3), url()
		another := w.open(database, w.policy(3))
		n := w.open(database, w.policy(2), func(o *translog.Options) {
			o.Store = &meanwhile{o.Store, func() {
				w.witnesses[2].answers(nil)
				if err := another.Step(context.Background()); err != nil {
					t.Error(err)
				}
			}}
		})
		n.queue("a")
		w.witnesses[2].answers(status(500))
		n.step()
		if c := n.wantProof(1, "a"); len(c.Cosignatures) != 3 {
			t.Errorf("%+v", c)
		}
	})
}

// A reader may ask for the one that is away.
func TestWitness_ThatIsAwayKeepsItsCosignatureOfTheSameTree(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 2)
		n := w.open(url(), w.policy(1))
		n.queue("a")
		n.step()
		for until := time.Now().Add(10 * time.Second); len(n.wantProof(1, "a").Cosignatures) < 2; {
			if time.Now().After(until) {
				t.Fatal("only one has cosigned")
			}
			time.Sleep(time.Millisecond)
		}
		w.witnesses[1].answers(status(500))
		for range 2 {
			asked := w.witnesses[0].asked.Load()
			w.advance(time.Hour)
			n.step()
			if got := w.witnesses[0].asked.Load(); got != asked+1 {
				t.Errorf("the other is asked %d times", got-asked)
			}
			if c := n.wantProof(1, "a"); len(c.Cosignatures) != 2 {
				t.Errorf("%+v", c)
			}
		}
		note, err := n.Checkpoint(t.Context(), 1)
		w.must(err)
		if lines := strings.Count(string(note), "\n"); lines != 3+1+3 {
			t.Errorf("not a signature of each:\n%s", note)
		}
		w.witnesses[0].answers(status(500)) // what was kept makes no quorum
		before, err := n.store.Published(t.Context(), 1)
		w.must(err)
		w.advance(time.Hour)
		if err := n.Step(t.Context()); err == nil {
			t.Error("it is published again though no witness answers")
		}
		if after, err := n.store.Published(t.Context(), 1); err != nil || !after.At.Equal(before.At) {
			t.Errorf("published at %v, %v", after.At, err)
		}
		n.queue("b") // of another tree nothing is kept
		w.witnesses[0].answers(nil)
		w.advance(time.Hour)
		n.step()
		if c := n.wantProof(1, "b"); len(c.Cosignatures) != 1 || c.Cosignatures[0].Witness != "w0" {
			t.Errorf("%+v", c)
		}
	})
}

func TestSequence_PlacesNothingBeforeWitnessesConfirm(t *testing.T) {
	w := newWorld(t, 2)
	n := w.open("sqlite::memory:", w.policy(2))
	w.witnesses[0].answers(status(500))
	n.queue("a")
	if err := n.Step(t.Context()); err == nil || n.head().Size != 0 || n.head().Frozen != "" {
		t.Errorf("%v, %+v", err, n.head())
	}
	w.witnesses[0].answers(nil)
	w.advance(time.Second)
	n.step()
	n.wantProof(1, "a")
}

// Of two witnesses either is enough, and the one that has the larger tree is away.
func TestSequence_PlacesNothingWhileASilentWitnessMayBeAhead(t *testing.T) {
	w := newWorld(t, 2)
	whole := w.open("sqlite::memory:", w.policy(1))
	whole.queue(names(0, 10)...)
	whole.step()
	w.witnesses[1].answers(status(500))
	whole.queue(names(10, 30)...)
	for whole.Step(t.Context()) != nil { // the first may still have worked on the older one
		w.advance(time.Hour)
	}
	entries, err := whole.store.Entries(t.Context(), 1, 0, 10)
	w.must(err)
	restored := w.open("sqlite::memory:", w.policy(1))
	_, err = restored.store.Extend(t.Context(), 1, 0, entries)
	w.must(err)
	w.witnesses[0].answers(status(500))
	w.witnesses[1].answers(nil)
	restored.queue("new")
	if err := restored.Step(t.Context()); err == nil || restored.head().Size != 10 || restored.head().Frozen != "" {
		t.Errorf("while the other is away: %v, %+v", err, restored.head())
	}
	w.witnesses[0].answers(nil)
	w.advance(time.Hour)
	restored.wantFrozen(translog.FrozenBehind)
}

// A witness that has a smaller tree may have another one.
func TestWitness_AContradictedTreeIsNotPublished(t *testing.T) {
	for range 10 { // whichever of the two answers first
		w := newWorld(t, 2)
		one := w.witnesses[0]
		whole := w.open("sqlite::memory:", fmt.Sprintf("witness %s %s %s\nquorum %s\n", one.name, one.signer.Key, one.url, one.name))
		whole.queue(names(0, 10)...)
		whole.step()
		fork := w.open("sqlite::memory:", w.policy(1))
		fork.queue(names(5, 45)...)
		_, _, err := fork.store.Sequence(t.Context(), 100) // as a release without the guard would
		w.must(err)
		fork.wantFrozen(translog.FrozenFork)
		if _, err := fork.Checkpoint(t.Context(), 1); !errors.Is(err, translog.ErrNothing) {
			t.Errorf("it is published: %v", err)
		}
	}
}

func TestWitness_ThatIsAwayAtTheStartIsNotAskedEachSecond(t *testing.T) {
	w := newWorld(t, 1)
	n := w.open("sqlite::memory:", w.policy(1), func(o *translog.Options) { o.Interval = time.Second })
	w.witnesses[0].answers(status(500))
	n.queue("a")
	for range 5 {
		if err := n.Step(t.Context()); err == nil {
			t.Error("a step succeeds")
		}
	}
	if got := w.witnesses[0].asked.Load(); got != 1 {
		t.Errorf("it is asked %d times at once", got)
	}
	w.witnesses[0].answers(nil)
	w.advance(time.Second)
	w.advance(time.Second)
	n.step()
	n.wantProof(1, "a")
}

func TestWitness_IsAskedAgainAfterAClockAhead(t *testing.T) {
	w := newWorld(t, 1)
	n := w.open("sqlite::memory:", w.policy(1), func(o *translog.Options) { o.Interval = time.Second })
	w.witnesses[0].answers(status(500))
	n.queue("a")
	w.advance(time.Hour)
	if err := n.Step(t.Context()); err == nil {
		t.Error("the step succeeds")
	}
	w.advance(-time.Hour)
	w.witnesses[0].answers(nil)
	n.step()
	n.wantProof(1, "a")
}

// fallback is a database that falls back to an older state while the log runs, as one that
// fails over to a replica does.
type fallback struct{ translog.Store }

func TestFreeze_ALogThatFallsBackBeforeItPlaces(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 0)
		store := &fallback{}
		n := w.open(url(), w.policy(0), func(o *translog.Options) { store.Store, o.Store = o.Store, store })
		n.queue(names(0, 30)...)
		n.step()
		entries, err := n.store.Entries(t.Context(), 1, 0, 20)
		w.must(err)
		older := w.open(url(), w.policy(0))
		_, err = older.store.Extend(t.Context(), 1, 0, entries)
		w.must(err)
		older.queue("new")
		store.Store = older.store
		if err := n.Step(t.Context()); !errors.Is(err, translog.ErrFrozen) {
			t.Errorf("the step returned %v", err)
		}
		if head := older.head(); head.Size != 20 || head.Frozen != translog.FrozenMark {
			t.Errorf("%+v", head)
		}
	})
}

// The tree that another process has signed, and this one has only read, was lost.
func TestFreeze_ALogThatFallsBackBehindWhatAnotherHasSigned(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 0)
		database, store := url(), &fallback{}
		n := w.open(database, w.policy(0), func(o *translog.Options) { store.Store, o.Store = o.Store, store })
		other := w.open(database, w.policy(0))
		n.queue(names(0, 10)...)
		n.step()
		other.queue(names(10, 30)...)
		other.step()
		n.step() // it has nothing to sign
		entries, err := n.store.Entries(t.Context(), 1, 0, 20)
		w.must(err)
		older := w.open(url(), w.policy(0))
		_, err = older.store.Extend(t.Context(), 1, 0, entries)
		w.must(err)
		older.queue("new")
		store.Store = older.store
		for range 2 {
			if err := n.Step(t.Context()); !errors.Is(err, translog.ErrFrozen) {
				t.Errorf("the step returned %v", err)
			}
		}
		if head := older.head(); head.Size != 20 || head.Frozen != translog.FrozenMark {
			t.Errorf("%+v", head)
		}
		w.must(older.Resume(t.Context(), 20)) // the operator knows that no process has signed more
		n.step()
		older.wantProof(1, "new")
	})
}

// failing is a store of which one call fails, as while a database fails over.
type failing struct {
	translog.Store
	call string
}

func (f failing) fail(call string) error {
	if call == f.call {
		return errors.New("the connection is reset")
	}
	return nil
}

func (f failing) Heads(ctx context.Context) ([]translog.Head, error) {
	if err := f.fail("Heads"); err != nil {
		return nil, err
	}
	return f.Store.Heads(ctx)
}

func (f failing) ListKeys(ctx context.Context, keys []receipt.Key) ([]receipt.Key, error) {
	if err := f.fail("ListKeys"); err != nil {
		return nil, err
	}
	return f.Store.ListKeys(ctx, keys)
}

func (f failing) Sequence(ctx context.Context, most int) (translog.Head, int, error) {
	if err := f.fail("Sequence"); err != nil {
		return translog.Head{}, 0, err
	}
	return f.Store.Sequence(ctx, most)
}

func (f failing) Published(ctx context.Context, log int64) (translog.PublishedCheckpoint, error) {
	if err := f.fail("Published"); err != nil {
		return translog.PublishedCheckpoint{}, err
	}
	return f.Store.Published(ctx, log)
}

func (f failing) WitnessSize(ctx context.Context, log int64, name string) (int64, error) {
	if err := f.fail("WitnessSize"); err != nil {
		return 0, err
	}
	return f.Store.WitnessSize(ctx, log, name)
}

func (f failing) SetWitness(ctx context.Context, log int64, name string, size int64) error {
	if err := f.fail("SetWitness"); err != nil {
		return err
	}
	return f.Store.SetWitness(ctx, log, name, size)
}

func (f failing) Publish(ctx context.Context, log, size int64, note func([]byte) []byte) error {
	if err := f.fail("Publish"); err != nil {
		return err
	}
	return f.Store.Publish(ctx, log, size, note)
}

// The tree that another process has signed was lost while this one had its own published.
func TestFreeze_ALogThatFallsBackAfterItsStoreHasFailedToPublish(t *testing.T) {
	for _, call := range []string{"WitnessSize", "SetWitness", "Publish"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t, 1)
			database, store := sqldbtest.SQLite(t), &fallback{}
			n := w.open(database, w.policy(1), func(o *translog.Options) { store.Store, o.Store = o.Store, store })
			n.queue(names(0, 10)...)
			n.step()
			n.queue(names(10, 20)...)
			store.Store = failing{n.store, call}
			if err := n.Step(t.Context()); err == nil || errors.Is(err, translog.ErrFrozen) {
				t.Errorf("the step returned %v", err)
			}
			entries, err := n.store.Entries(t.Context(), 1, 0, 20)
			w.must(err)
			other := w.open(database, w.policy(1))
			other.queue(names(20, 30)...)
			other.step()
			older := w.open("sqlite::memory:", w.policy(1))
			_, err = older.store.Extend(t.Context(), 1, 0, entries)
			w.must(err)
			older.queue("new")
			store.Store = older.store
			w.advance(time.Minute) // the witness is asked again
			if err := n.Step(t.Context()); !errors.Is(err, translog.ErrFrozen) {
				t.Errorf("the step returned %v", err)
			}
			if head := older.head(); head.Size != 20 || head.Frozen != translog.FrozenBehind {
				t.Errorf("%+v", head)
			}
		})
	}
}

// The tree that another process has signed since this one read the head was lost.
func TestFreeze_ALogThatFallsBackAfterItsStoreHasFailed(t *testing.T) {
	for _, call := range []string{"Heads", "ListKeys", "Sequence", "Published"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t, 1)
			database, store := sqldbtest.SQLite(t), &fallback{}
			n := w.open(database, w.policy(1), func(o *translog.Options) { store.Store, o.Store = o.Store, store })
			first := n
			if call == "ListKeys" { // which only the first step of a process calls
				first = w.open(database, w.policy(1))
			}
			first.queue(names(0, 20)...)
			first.step()
			entries, err := n.store.Entries(t.Context(), 1, 0, 20)
			w.must(err)
			store.Store = failing{n.store, call}
			if err := n.Step(t.Context()); err == nil || errors.Is(err, translog.ErrFrozen) {
				t.Errorf("the step returned %v", err)
			}
			other := w.open(database, w.policy(1))
			other.queue(names(20, 30)...)
			other.step()
			older := w.open("sqlite::memory:", w.policy(1))
			_, err = older.store.Extend(t.Context(), 1, 0, entries)
			w.must(err)
			older.queue("new")
			store.Store = older.store
			if err := n.Step(t.Context()); !errors.Is(err, translog.ErrFrozen) {
				t.Errorf("the step returned %v", err)
			}
			if head := older.head(); head.Size != 20 || head.Frozen != translog.FrozenBehind {
				t.Errorf("%+v", head)
			}
		})
	}
}

// The mark has all that was signed.
func TestStep_WithAMarkAFailureOfTheStoreAsksNoWitness(t *testing.T) {
	w := newWorld(t, 1)
	store := &fallback{}
	n := w.open("sqlite::memory:", w.policy(1), func(o *translog.Options) {
		store.Store, o.Store = o.Store, store
		o.Mark = filepath.Join(t.TempDir(), "mark")
	})
	n.queue("a")
	n.step()
	store.Store = failing{n.store, "Heads"}
	if err := n.Step(t.Context()); err == nil {
		t.Error("the step succeeds")
	}
	store.Store = n.store
	asked := w.witnesses[0].asked.Load()
	n.step()
	if got := w.witnesses[0].asked.Load(); got != asked {
		t.Errorf("it is asked %d times", got-asked)
	}
}

// behind returns a process whose ledger has only the first of so many entries that were
// published by another.
func behind(w *world, url func() string, has, had int, policy string, change ...func(*translog.Options)) (restored, whole *node) {
	w.Helper()
	whole = w.open(url(), w.policy(len(w.witnesses)), change...) // all: a witness that is late would have less
	for _, portion := range [][]string{names(0, has), names(has, had)} {
		whole.queue(portion...)
		whole.step()
	}
	restored = w.open(url(), policy, change...)
	entries, err := whole.store.Entries(w.Context(), 1, 0, has)
	w.must(err)
	_, err = restored.store.Extend(w.Context(), 1, 0, entries)
	w.must(err)
	return restored, whole
}

func TestFreeze_ALogBehindAWitness(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		for _, has := range []int{0, 20} {
			w := newWorld(t, 2)
			n, _ := behind(w, url, has, 30, w.policy(1))
			w.witnesses[1].answers(status(500)) // one that knows is enough
			n.queue("new")
			n.wantFrozen(translog.FrozenBehind)
			if _, err := n.Proof(t.Context(), 1, n.leaf("new")); !errors.Is(err, translog.ErrFrozen) {
				t.Errorf("the proof: %v", err)
			}
		}
	})
}

func TestFreeze_ALogThatFindsItselfBehind(t *testing.T) {
	w := newWorld(t, 1)
	n := w.open("sqlite::memory:", w.policy(1))
	n.queue("a")
	n.step()
	w.witnesses[0].answers(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "text/x.tlog.size")
		out.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintln(out, 17)
	})
	n.queue("b")
	if err := n.Step(t.Context()); !errors.Is(err, translog.ErrFrozen) {
		t.Errorf("the step returned %v", err)
	}
	n.wantFrozen(translog.FrozenBehind)
}

func TestFreeze_ATreeThatAWitnessDoesNotKnow(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		whole := w.open(url(), w.policy(1))
		whole.queue(names(0, 10)...)
		whole.step()
		fork := w.open(url(), w.policy(0)) // goes on by itself, without the guard
		fork.queue(names(5, 15)...)
		_, _, err := fork.store.Sequence(t.Context(), 100)
		w.must(err)
		fork.wantFrozen(translog.FrozenFork)
		larger := w.open(url(), w.policy(1))
		larger.queue(names(5, 45)...)
		_, _, err = larger.store.Sequence(t.Context(), 100)
		w.must(err)
		if err := larger.Step(t.Context()); !errors.Is(err, translog.ErrFrozen) { // confirmed as far as it can be, and refused
			t.Errorf("the step returned %v", err)
		}
		larger.wantFrozen(translog.FrozenFork)
		whole.queue("new")
		whole.step()
		whole.wantProof(1, "new")
	})
}

func TestRestore_WaitsForTheOperator(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		n := w.open(url(), w.policy(1))
		n.queue("a")
		n.step()
		w.must(n.store.Freeze(t.Context(), 1, translog.FrozenRestored))
		n.queue("b")
		n.wantFrozen(translog.FrozenRestored)
		n.wantProof(1, "a")
		w.witnesses[0].answers(status(500))
		if err := n.Resume(t.Context(), 1); err == nil {
			t.Error("it resumes without its witness")
		}
		n.wantFrozen(translog.FrozenRestored)
		w.witnesses[0].answers(nil)
		w.advance(time.Second)
		w.must(n.Resume(t.Context(), 0))
		if err := n.Resume(t.Context(), 0); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("it resumes twice: %v", err)
		}
		n.step()
		n.wantProof(1, "b")
	})
}

func TestRestore_WithoutWitnessesTheOperatorTypesTheSize(t *testing.T) {
	w := newWorld(t, 0)
	n := w.open("sqlite::memory:", w.policy(0))
	n.queue("a")
	n.step()
	w.must(n.store.Freeze(t.Context(), 1, translog.FrozenRestored))
	if err := n.Resume(t.Context(), 2); !errors.Is(err, translog.ErrDisagrees) {
		t.Errorf("with another size: %v", err)
	}
	w.must(n.Resume(t.Context(), 1))
	n.step()
}

func TestFreeze_ALogBehindItsMark(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 0)
		mark := filepath.Join(t.TempDir(), "mark")
		with := func(o *translog.Options) { o.Mark = mark }
		n, whole := behind(w, url, 20, 30, w.policy(0), with)
		n.queue("new")
		n.wantFrozen(translog.FrozenMark)
		if err := n.Resume(t.Context(), 20); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("it resumes: %v", err)
		}
		other := w.open(url(), w.policy(0), with)
		other.queue(names(5, 45)...)
		_, _, err := other.store.Sequence(t.Context(), 100)
		w.must(err)
		other.wantFrozen(translog.FrozenMark)
		whole.queue("new")
		whole.step()
		w.must(whole.store.Freeze(t.Context(), 1, translog.FrozenFork))
		_, err = whole.Close(t.Context(), whole.head().Origin, false)
		w.must(err)
		whole.step()
		earlier := w.open(url(), w.policy(0), with) // the first generation again, which was closed
		earlier.queue("new")
		earlier.wantFrozen(translog.FrozenMark)
		w.must(os.WriteFile(mark, []byte("no mark"), 0o600))
		whole.queue("newer")
		if err := whole.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "LOG_MARK_FILE") {
			t.Errorf("with a mark that is none: %v", err)
		}
	})
}

func TestRecover_BringsBackWhatWasLostFromACopy(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 2)
		n, whole := behind(w, url, 300, 700, w.policy(2))
		n.queue("new")
		n.wantFrozen(translog.FrozenBehind)
		changed := func(ctx context.Context, path string) ([]byte, error) {
			data, err := whole.fetch(1)(ctx, path)
			if strings.HasPrefix(path, "tile/entries/001") {
				data[5] ^= 1
			}
			return data, err
		}
		if _, err := n.Recover(t.Context(), changed, -1); err == nil || n.head().Size != 300 {
			t.Errorf("from a copy that was changed: %v, %d entries", err, n.head().Size)
		}
		recovered, err := n.Recover(t.Context(), whole.fetch(1), -1)
		w.must(err)
		if recovered != 400 || n.head().Root != whole.head().Root {
			t.Errorf("%d entries came back, %+v", recovered, n.head())
		}
		n.step()
		n.wantProof(1, "new")
		n.wantProof(1, "receipt 650")
		if _, err := n.Recover(t.Context(), whole.fetch(1), -1); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("a log that is not frozen recovers: %v", err)
		}
	})
}

// A copy may lack the last entries; without witnesses only the operator knows.
func TestRecover_WithoutWitnessesNeedsTheSize(t *testing.T) {
	w := newWorld(t, 0)
	n, whole := behind(w, func() string { return "sqlite::memory:" }, 10, 30, w.policy(0))
	w.must(n.store.Freeze(t.Context(), 1, translog.FrozenRestored))
	for _, size := range []int64{-1, 10, 31} {
		if _, err := n.Recover(t.Context(), whole.fetch(1), size); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("it resumes with the size %d: %v", size, err)
		}
		n.wantFrozen(translog.FrozenRestored)
	}
	_, err := n.Recover(t.Context(), whole.fetch(1), 30)
	w.must(err)
	n.step()
}

func TestRecover_RefusesALogThatWentOnOtherwise(t *testing.T) {
	w := newWorld(t, 1)
	n, whole := behind(w, func() string { return "sqlite::memory:" }, 10, 30, w.policy(1))
	n.queue("other")
	_, _, err := n.store.Sequence(t.Context(), 1) // as a release without the guard would
	w.must(err)
	n.wantFrozen(translog.FrozenBehind)
	if _, err := n.Recover(t.Context(), whole.fetch(1), -1); !errors.Is(err, translog.ErrDisagrees) {
		t.Errorf("it recovers: %v", err)
	}
}

func TestClose_AGenerationIsFollowedByTheNext(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 2)
		n := w.open(url(), w.policy(2))
		n.sell("a")
		n.step()
		if _, err := n.Close(t.Context(), n.head().Origin, false); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("a log that works is closed: %v", err)
		}
		w.must(n.store.Freeze(t.Context(), 1, translog.FrozenFork))
		n.sell("b")
		if _, err := n.Close(t.Context(), "other", false); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("closed under another name: %v", err)
		}
		next, err := n.Close(t.Context(), n.head().Origin, false)
		w.must(err)
		n.step()
		n.wantProof(1, "a")
		n.wantProof(2, "a")
		n.wantProof(2, "b")
		if _, err := n.Proof(t.Context(), 1, n.leaf("b")); !errors.Is(err, translog.ErrUnknownLeaf) {
			t.Errorf("the closed one: %v", err)
		}
		text, err := n.Directory(t.Context())
		w.must(err)
		d, err := receiptlog.ParseDirectory(text)
		w.must(err)
		if len(d.Logs) != 2 || d.Logs[0].Origin != next || d.Logs[1].Final == "" || d.MergeDelay != 60 {
			t.Errorf("%s", text)
		}
	})
}

func TestReplicas_MakeOneLog(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func() string) {
		w := newWorld(t, 2)
		url := fresh()
		nodes := []*node{w.open(url, w.policy(2)), w.open(url, w.policy(2))}
		var all sync.WaitGroup
		for i, n := range nodes {
			all.Go(func() {
				for j := range 20 {
					n.sell(fmt.Sprint(i, j))
					if err := n.Step(context.Background()); errors.Is(err, translog.ErrFrozen) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		w.advance(time.Hour)
		nodes[0].step()
		for i, n := range nodes {
			for j := range 20 {
				n.wantProof(1, fmt.Sprint(i, j))
			}
		}
		a, err := nodes[1].Audit(t.Context(), time.Time{})
		if err != nil || len(a.Faults) != 0 || a.Entries != 40 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

func TestAudit_FindsWhatMustNotBe(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		n := w.open(url(), w.policy(1))
		for i := range 5 {
			n.sell(fmt.Sprint(i))
		}
		n.step()
		w.advance(time.Hour)
		a, err := n.Audit(t.Context(), time.Time{})
		w.must(err)
		if len(a.Faults) != 0 || len(a.Notes) != 0 || a.Entries != 5 {
			t.Errorf("%+v", a)
		}
		n.sell("waits")
		w.advance(time.Hour)
		want := func(text string) {
			t.Helper()
			if a, err := n.Audit(t.Context(), time.Time{}); err != nil || len(a.Faults) != 1 || !strings.Contains(a.Faults[0], text) {
				t.Errorf("%+v, %v; want %q", a, err, text)
			}
		}
		want("waits for its place")
		n.step()
		// The thief of the log's key has the witness cosign his own entry.
		thief := w.open(url(), w.policy(1))
		entries, err := n.store.Entries(t.Context(), 1, 0, 100)
		w.must(err)
		_, err = thief.store.Extend(t.Context(), 1, 0, entries)
		w.must(err)
		thief.queue("stolen")
		thief.step()
		want("the ledger has 6")
	})
}

// Who has the log's key can have a witness whose policy names a later generation cosign a
// tree in it, beside the log that goes on.
func TestAudit_FindsAGenerationThatTheLedgerDoesNotHave(t *testing.T) {
	w := newWorld(t, 1)
	n := w.open(sqldbtest.SQLite(t), w.policy(1))
	n.sell("sold")
	n.step()
	w.advance(time.Hour)
	audit := func(faults int, want string) {
		t.Helper()
		a, err := n.Audit(t.Context(), time.Time{})
		if err != nil || len(a.Faults) != faults || !strings.Contains(strings.Join(a.Faults, ""), want) || len(a.Notes) != 0 {
			t.Errorf("%+v, %v; want %q", a, err, want)
		}
	}
	audit(0, "")
	s, err := receiptlog.NewLogSigner(host+"/v1/log/2", seeded("log"))
	w.must(err)
	note, err := receiptlog.Checkpoint{Origin: s.Name(), Size: 1, Root: tlog.RecordHash([]byte("hidden"))}.Sign(s)
	w.must(err)
	out := httptest.NewRecorder()
	w.witnesses[0].ServeHTTP(out, httptest.NewRequest(http.MethodPost, "/add-checkpoint", strings.NewReader(string(receiptlog.AddCheckpoint{Checkpoint: note}.Bytes()))))
	if out.Code != http.StatusOK {
		t.Fatal(out.Code, out.Body)
	}
	audit(1, "the witness w0 has cosigned 1 entries of verifier.example/v1/log/2, which is not a log of this ledger")
}

// A purchase may take longer than the merge delay before its answer is stored and queued.
func TestAudit_AnEntryQueuedJustNowIsNoFault(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		n := w.open(url(), w.policy(1))
		ctx := t.Context()
		w.must(n.ledger.Heartbeat(ctx, "me", n.clock().Add(time.Hour)))
		r := payment.Record{Key: payment.Key{Network: "n", Asset: "a", Payer: "p", Nonce: "slow"}, Owner: "me", Deadline: n.clock().Add(time.Hour), Amount: "1", Request: [32]byte{1}}
		_, _, err := n.ledger.Claim(ctx, r)
		w.must(err)
		w.advance(2 * time.Minute)
		_, _, err = n.ledger.Begin(ctx, r.Key, "me", payment.Settlement{Request: r.Request, Answer: signed("slow"), Month: "2026-11", Limit: 1 << 30, Deadline: r.Deadline})
		w.must(err)
		if a, err := n.Audit(ctx, time.Time{}); err != nil || len(a.Faults) != 0 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// So does one that still runs with the earlier settings when the log begins.
func TestAudit_QueuesWhatWasSoldWithoutTheLog(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		database := url()
		n := w.open(database, w.policy(1))
		plain, err := ledger.Open(t.Context(), database, ledger.Options{Now: w.clock})
		w.must(err)
		t.Cleanup(func() { _ = plain.Close() })
		(&node{world: w, ledger: plain}).sell("a")
		w.advance(time.Hour)
		if a, err := n.Audit(t.Context(), time.Time{}); err != nil || len(a.Faults) != 1 || !strings.Contains(a.Faults[0], "was not in the log") {
			t.Errorf("%+v, %v", a, err)
		}
		n.step()
		n.wantProof(1, "a")
		if a, err := n.Audit(t.Context(), time.Time{}); err != nil || len(a.Faults) != 0 {
			t.Errorf("afterwards: %+v, %v", a, err)
		}
	})
}

func TestAudit_TellsForeignEntriesFromPrunedAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		n := w.open(url(), w.policy(1))
		audit := func(at time.Time) translog.Audit {
			t.Helper()
			a, err := n.Audit(t.Context(), at)
			w.must(err)
			return a
		}
		n.sell("pruned")
		n.end("died", payment.Outcome{State: payment.Dead, Reason: "refused"})
		n.step()
		w.advance(2 * time.Hour)
		w.must(n.ledger.Prune(t.Context(), w.clock().Add(-time.Hour)))
		early := w.clock()
		w.advance(time.Hour)
		n.sell("stored")
		n.step()
		if stored, _, err := n.store.StoredEntries(t.Context(), 0, w.clock().Add(time.Hour), 10); err != nil || len(stored) != 1 {
			t.Fatalf("%d answers are stored, %v", len(stored), err)
		}
		if a := audit(early); len(a.Faults) != 0 || a.Foreign != 0 || a.FirstForeign != -1 || a.Copied != 0 || a.Entries != 3 || a.SizeAt != 2 {
			t.Errorf("%+v", a)
		}
		n.queue("of no payment")
		n.sell("later")
		n.step()
		if a := audit(time.Time{}); len(a.Faults) != 1 || !strings.Contains(a.Faults[0], "entry 3 was not queued here") || a.Foreign != 1 || a.FirstForeign != 3 || a.SizeAt != 0 {
			t.Errorf("%+v", a)
		}
		e, err := receiptlog.EntryOfAnswer(signed("copied"))
		w.must(err)
		_, err = n.store.Extend(t.Context(), 1, 5, [][]byte{e.Bytes()})
		w.must(err)
		n.step()
		if a := audit(time.Time{}); len(a.Faults) != 1 || a.Copied != 1 || a.FirstCopied != 5 {
			t.Errorf("%+v", a)
		}
	})
}

// A plain copy gets the key of a dead one, and is released. What was queued with that one was queued here all the same.
func TestAudit_AnEntryWhosePaymentGaveWayIsNotForeign(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		n := w.open(url(), w.policy(1))
		plain := payment.Record{
			Key: payment.Key{Network: "n", Asset: "a", Payer: "p", Nonce: "taken"}, Owner: "me", Deadline: w.clock().Add(time.Hour),
			Amount: "1", Request: [32]byte{1}, Payment: [32]byte{2}, Plain: true,
		}
		other := plain
		other.Payment, other.Plain = [32]byte{3}, false
		other.Key = other.Key.OfCopy(other.Payment)
		apply := func(key payment.Key, e payment.Event) {
			t.Helper()
			_, err := n.ledger.Apply(t.Context(), key, e)
			w.must(err)
		}
		w.must(n.ledger.Heartbeat(t.Context(), "me", w.clock().Add(time.Hour)))
		_, _, err := n.ledger.Claim(t.Context(), other)
		w.must(err)
		_, _, err = n.ledger.Begin(t.Context(), other.Key, "me", payment.Settlement{Request: other.Request, Answer: signed("taken"), Month: "2026-11", Limit: 1 << 30, Deadline: other.Deadline})
		w.must(err)
		n.step()
		apply(other.Key, payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0x1"}))
		apply(plain.Key, payment.Event{Kind: payment.EventLost, Outcome: payment.Outcome{Reason: payment.ReasonVanished}})
		apply(plain.Key, payment.Event{Kind: payment.EventChain, Outcome: payment.Outcome{State: payment.Dead, Reason: payment.ReasonExpired, Unsent: true}})
		if _, won, err := n.ledger.Claim(t.Context(), plain); err != nil || !won {
			t.Fatalf("not taken over: %v, %v", won, err)
		}
		for _, end := range []string{"claimed", "released"} {
			if end == "released" {
				apply(plain.Key, payment.Event{Kind: payment.EventRelease, Claim: plain})
			}
			a, err := n.Audit(t.Context(), time.Time{})
			if err != nil || a.Entries != 1 || a.Foreign != 0 || len(a.Faults) != 0 {
				t.Errorf("%s: %+v, %v", end, a, err)
			}
		}
	})
}

// hashless is a store whose hashes cannot be read.
type hashless struct{ translog.Store }

func (hashless) Hashes(context.Context, int64, []int64) ([]tlog.Hash, error) {
	return nil, errors.New("the database is away")
}

func TestAudit_ADatabaseThatIsAwayIsNoFaultOfTheLog(t *testing.T) {
	w := newWorld(t, 0)
	n := w.open(sqldbtest.SQLite(t), w.policy(0))
	n.sell("a")
	n.step()
	o := n.Options
	o.Store = hashless{n.store}
	away, err := translog.New(o)
	w.must(err)
	if a, err := away.Audit(t.Context(), time.Time{}); err == nil || len(a.Faults) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestClose_ALogWithALostKeyByTheNextKey(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 0)
		database := url()
		n := w.open(database, w.policy(0))
		n.sell("a")
		n.step()
		n.sell("b")
		for change, with := range map[string]func(*translog.Options){
			"key":  func(o *translog.Options) { o.Key = seeded("next log") },
			"host": func(o *translog.Options) { o.Host = "other.example" },
		} {
			origin := n.head().Origin
			o := n.Options
			with(&o)
			next, err := translog.New(o)
			w.must(err)
			if err := next.Step(t.Context()); !errors.Is(err, translog.ErrOtherLog) {
				t.Errorf("under another %s, a step returned %v", change, err)
			}
			if _, err := next.Close(t.Context(), "other", false); !errors.Is(err, translog.ErrDisagrees) {
				t.Errorf("closed under another name: %v", err)
			}
			_, err = next.Close(t.Context(), origin, false)
			w.must(err)
			if err := n.Step(t.Context()); !errors.Is(err, translog.ErrOtherLog) { // a process that still has the old one
				t.Errorf("after the end, a step returned %v", err)
			}
			n.Log = next
		}
		n.step()
		n.wantProof(1, "a")
		n.wantProof(3, "a")
		n.wantProof(3, "b")
		text, err := n.Directory(t.Context())
		w.must(err)
		d, err := receiptlog.ParseDirectory(text)
		w.must(err)
		if len(d.Logs) != 2 { // the second was never published
			t.Errorf("%s", text)
		}
	})
}

func TestPolicy_ThatOnlyMentionsTheLogIsCompleted(t *testing.T) {
	w := newWorld(t, 1)
	_, vkey, err := translog.Name(host, seeded("log"), 1)
	w.must(err)
	n := w.open("sqlite::memory:", "# for log "+vkey+"\n"+w.policy(1))
	n.queue("a")
	n.step()
	n.wantProof(1, "a")
}

func TestPolicy_TheLogIsNoWitnessOfItself(t *testing.T) {
	w := newWorld(t, 0)
	o := w.open("sqlite::memory:", w.policy(0)).Options
	own, err := receiptlog.NewWitnessSigner("w.example", seeded("log"), time.Now)
	w.must(err)
	o.Policy = fmt.Sprintf("witness w %s http://localhost\nquorum w\n", own.Key)
	if _, err := translog.New(o); !errors.Is(err, receiptlog.ErrMalformed) {
		t.Errorf("it opens: %v", err)
	}
}

// steps counts how often the head is read.
type steps struct {
	translog.Store
	made atomic.Int32
}

func (s *steps) Heads(ctx context.Context) ([]translog.Head, error) {
	s.made.Add(1)
	return s.Store.Heads(ctx)
}

func TestLog_AFaultThatLastsIsLoggedOnceAMinute(t *testing.T) {
	w := newWorld(t, 1)
	w.witnesses[0].answers(status(500))
	var lines bytes.Buffer // read when nothing writes any more
	store := &steps{}
	n := w.open("sqlite::memory:", w.policy(1), func(o *translog.Options) {
		store.Store, o.Store = o.Store, store
		o.Log = slog.New(slog.NewTextHandler(&lines, nil))
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	wait := func(so int32) {
		for from := store.made.Load(); store.made.Load() < from+so; {
			time.Sleep(time.Millisecond)
		}
	}
	wait(10)
	w.advance(time.Minute)
	wait(10)
	stop()
	<-ended
	if got := strings.Count(lines.String(), "the log of receipts waits"); got != 2 {
		t.Errorf("it is logged %d times:\n%s", got, &lines)
	}
	if strings.Contains(lines.String(), "%!") {
		t.Error(&lines)
	}
}

// power is a copy of a SQLite file, and of so much of its log (WAL), as a machine has it
// that lost its power while that was written.
func power(w *world, file string, wal []byte) (url string) {
	w.Helper()
	copied := filepath.Join(w.TempDir(), "ledger.db")
	main, err := os.ReadFile(file)
	w.must(err)
	w.must(os.WriteFile(copied, main, 0o600))
	w.must(os.WriteFile(copied+"-wal", wal, 0o600))
	return "sqlite:" + copied
}

func TestSequence_AWriteOnDiskInPartPlacesNothing(t *testing.T) {
	w := newWorld(t, 0)
	url := sqldbtest.SQLite(t)
	file := strings.TrimPrefix(url, "sqlite:")
	n := w.open(url, w.policy(0))
	for _, name := range names(0, 5) {
		n.sell(name)
	}
	before, err := os.ReadFile(file + "-wal")
	w.must(err)
	_, _, err = n.store.Sequence(t.Context(), 100)
	w.must(err)
	after, err := os.ReadFile(file + "-wal")
	w.must(err)
	if len(after) <= len(before) || !bytes.HasPrefix(after, before) {
		t.Fatalf("the write went elsewhere: %d and %d bytes", len(before), len(after))
	}
	sizes := map[int64]int{}
	for part := range 8 {
		cut := len(before) + (len(after)-len(before))*part/7
		lost := w.open(power(w, file, after[:cut]), w.policy(0))
		sizes[lost.head().Size]++
		lost.step()
		for _, name := range names(0, 5) {
			lost.wantProof(1, name)
		}
		w.advance(time.Hour)
		if a, err := lost.Audit(t.Context(), time.Time{}); err != nil || len(a.Faults) > 0 || a.Entries != 5 {
			t.Errorf("of %d bytes: %+v, %v", cut-len(before), a, err)
		}
	}
	if sizes[0] != 7 || sizes[5] != 1 {
		t.Errorf("sizes after the loss are %v", sizes)
	}
}

// poison gives something a place that is no entry, as a release that did not look would.
func (n *node) poison(data string) {
	n.Helper()
	head := n.head()
	_, err := n.store.Extend(context.Background(), head.Log, head.Size, [][]byte{[]byte(data)})
	n.must(err)
}

func TestClose_EndsAPoisonedGenerationAndNoOther(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		n := w.open(url(), w.policy(1))
		n.sell("a")
		n.step()
		if _, err := n.Close(t.Context(), n.head().Origin, true); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("a log that can be read is closed: %v", err)
		}
		n.poison(strings.Repeat("no entry", 40))
		n.step()
		if _, err := n.Close(t.Context(), n.head().Origin, false); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("closed without being asked: %v", err)
		}
		if _, err := n.Close(t.Context(), "other", true); !errors.Is(err, translog.ErrDisagrees) {
			t.Errorf("closed under another name: %v", err)
		}
		_, err := n.Close(t.Context(), n.head().Origin, true)
		w.must(err)
		n.step()
		n.wantProof(1, "a")
		n.wantProof(2, "a")
		note, err := n.Checkpoint(t.Context(), 2)
		w.must(err)
		c, err := n.readers().Open(note)
		w.must(err)
		tree, err := receiptlog.NewTree(c.Checkpoint, n.fetch(2))
		w.must(err)
		_, err = tree.Entries(t.Context(), 0)
		w.must(err)
	})
}

// The ledger was put back to before the change; the copy brings states that it lacked.
func TestStep_ListsTheKeysAgainWhenTheLogWasRecovered(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		w := newWorld(t, 1)
		keys := func(status string) func(*translog.Options) {
			return func(o *translog.Options) {
				o.Keys = []receipt.Key{{KeyID: "sha256:" + strings.Repeat("0a", 32), Status: status}}
			}
		}
		database := url()
		for _, status := range []string{receipt.KeyNext, receipt.KeyActive} {
			w.open(database, w.policy(1), keys(status)).step()
		}
		whole := w.open(database, w.policy(1))
		n := w.open(url(), w.policy(1), keys(receipt.KeyRetired))
		w.must(n.store.Freeze(t.Context(), 1, translog.FrozenRestored))
		n.wantFrozen(translog.FrozenRestored)
		_, err := n.Recover(t.Context(), whole.fetch(1), -1)
		w.must(err)
		n.step()
		entries, err := n.store.Entries(t.Context(), 1, 0, 10)
		w.must(err)
		var got []string
		for _, data := range entries {
			e, err := receiptlog.ParseEntry(data)
			w.must(err)
			got = append(got, fmt.Sprint(e.Number, " ", e.State))
		}
		if want := []string{"1 next", "2 active", "3 retired"}; !slices.Equal(got, want) {
			t.Errorf("states are %q, want %q", got, want)
		}
	})
}

func TestStep_FreezesWithoutTheMarkOfAPublishedLog(t *testing.T) {
	onEach(t, func(t *testing.T, url func() string) {
		for _, witnesses := range []int{0, 1} {
			w := newWorld(t, witnesses)
			mark := filepath.Join(t.TempDir(), "mark")
			with := func(o *translog.Options) { o.Mark = mark }
			database := url()
			n := w.open(database, w.policy(witnesses), with)
			n.sell("a")
			n.step()
			w.must(os.Remove(mark))
			n.sell("b")
			n.wantFrozen(translog.FrozenNoMark) // while it runs
			n = w.open(database, w.policy(witnesses), with)
			n.wantFrozen(translog.FrozenNoMark) // and on another machine
			if witnesses == 0 {
				if err := n.Resume(t.Context(), 0); !errors.Is(err, translog.ErrDisagrees) {
					t.Errorf("it resumes with another size: %v", err)
				}
			}
			w.must(n.Resume(t.Context(), 1)) // one act
			n.step()
			n.wantProof(1, "b")
			w.must(os.Remove(mark))
			n.wantFrozen(translog.FrozenNoMark)
			_, err := n.Close(t.Context(), n.head().Origin, false)
			w.must(err)
			if witnesses == 0 { // the witness awaits its operator
				n.step()
				n.wantProof(2, "b")
			}
		}
	})
}

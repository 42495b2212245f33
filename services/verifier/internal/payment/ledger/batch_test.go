package ledger

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func openFile(t *testing.T) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// commits counts what waited for the disk and what did not.
type commits struct{ durable, relaxed atomic.Int32 }

// counted opens a ledger whose commits are counted. fail, when set, is what a
// durable commit returns instead.
func counted(t *testing.T, fail error) (*Ledger, *commits) {
	t.Helper()
	l, c := openFile(t), &commits{}
	l.writes.durable = func(ctx context.Context, do func(*sql.Tx) error) error {
		c.durable.Add(1)
		if fail != nil {
			return fail
		}
		return l.db.Tx(ctx, do)
	}
	l.writes.relaxed = func(ctx context.Context, do func(*sql.Tx) error) error {
		c.relaxed.Add(1)
		return l.db.TxRelaxed(ctx, do)
	}
	return l, c
}

func claim(t *testing.T, l *Ledger, nonce string) payment.Key {
	t.Helper()
	key := payment.Key{Network: "n", Asset: "a", Payer: "p", Nonce: nonce}
	_, won, err := l.Claim(context.Background(), payment.Record{Key: key, Owner: "me", Deadline: time.Now().Add(time.Hour), Amount: "1"})
	if err != nil || !won {
		t.Fatal(won, err)
	}
	return key
}

func begin(l *Ledger, key payment.Key) error {
	_, _, err := l.Begin(context.Background(), key, "me", payment.Settlement{Answer: []byte("{}"), Month: "2026-11", Limit: 1000, Deadline: time.Now().Add(time.Hour)})
	return err
}

func TestWrite_WhatMayMoveMoneyIsOnDiskTheRestNeedNotBe(t *testing.T) {
	l, c := counted(t, nil)
	ctx, key := context.Background(), claim(t, l, "1")
	other := claim(t, l, "2")
	for _, step := range []struct {
		name    string
		durable bool
		run     func() error
	}{
		{"heartbeat", false, func() error { return l.Heartbeat(ctx, "me", time.Now().Add(time.Hour)) }},
		{"release", false, func() error {
			_, err := l.Apply(ctx, other, payment.Event{Kind: payment.EventRelease, Claim: payment.Record{Owner: "me"}})
			return err
		}},
		{"begin", true, func() error { return begin(l, key) }},
		{"retry", true, func() error {
			_, err := l.Apply(ctx, key, payment.Event{Kind: payment.EventRetry, Month: "2026-11", Retry: payment.Retry{Limit: 1000}})
			return err
		}},
		{"finish", false, func() error {
			_, err := l.Apply(ctx, key, payment.Verdict(payment.Outcome{State: payment.Unknown}))
			return err
		}},
		{"decision", true, func() error {
			_, err := l.Apply(ctx, key, decision(payment.Outcome{State: payment.Settled, Transaction: "0xtx"}))
			return err
		}},
		{"finish where nothing else remembers", true, func() error {
			_, err := l.Apply(ctx, key, payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0xtx", Durable: true}))
			return err
		}},
	} {
		durable, relaxed := c.durable.Load(), c.relaxed.Load()
		if err := step.run(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if c.durable.Load()-durable > 0 != step.durable || c.relaxed.Load()-relaxed > 0 == step.durable {
			t.Errorf("%s: %d commits waited for the disk, %d did not", step.name, c.durable.Load()-durable, c.relaxed.Load()-relaxed)
		}
	}
}

// A beginning that is refused writes nothing, so that those which wait for a free
// place do not make the disk busy.
func TestBegin_ThatIsRefusedWritesNothing(t *testing.T) {
	l := openFile(t)
	key := claim(t, l, "1")
	changes := func() (n int) {
		if err := l.db.Writer.QueryRow("SELECT total_changes()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := changes()
	_, _, err := l.Begin(context.Background(), key, "me", payment.Settlement{Answer: []byte("{}"), Month: "2026-11", Limit: 0, Deadline: time.Now().Add(time.Hour)})
	if n := changes() - before; !errors.Is(err, payment.ErrLimit) || n != 0 {
		t.Errorf("got %v and %d rows written", err, n)
	}
}

func TestBegin_ThatDoesNotReachTheDiskFails(t *testing.T) {
	broken := errors.New("the disk is broken")
	l, _ := counted(t, broken)
	key := claim(t, l, "1")
	if err := l.Heartbeat(context.Background(), "me", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := begin(l, key); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if r, err := l.Get(context.Background(), key); err != nil || r.State != payment.Working {
		t.Errorf("it is %s, %v", r.State, err)
	}
}

func TestWrite_AnothersLockEndsItInTime(t *testing.T) {
	t.Parallel()
	l := openFile(t)
	var path string
	if err := l.db.Reader.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	lock, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback() }()
	began := time.Now()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := l.Heartbeat(context.Background(), "me", time.Now()); err == nil {
				t.Error("a write went past another's lock")
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 2*batchTimeout+5*time.Second {
		t.Errorf("writes waited %v for another's lock", took)
	}
}

func TestWrite_ThoseThatComeTogetherShareACommit(t *testing.T) {
	l := openFile(t)
	var transactions atomic.Int32
	var before *sql.Tx
	blocked := make(chan struct{})
	go func() {
		_ = l.writes.do(context.Background(), false, func(context.Context, *unit) error {
			<-blocked // the batch in front is slow
			return nil
		})
	}()
	for len(l.writes.queue) > 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			err := l.writes.do(context.Background(), true, func(_ context.Context, u *unit) error {
				if u.Tx != before {
					before = u.Tx
					transactions.Add(1)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for len(l.writes.queue) < 200 {
		time.Sleep(time.Millisecond)
	}
	close(blocked)
	all.Wait()
	if n := transactions.Load(); n != 1 {
		t.Errorf("200 writes took %d transactions", n)
	}
}

func TestClose_FinishesQueuedWritesAndRefusesMore(t *testing.T) {
	l := openFile(t)
	ctx := context.Background()
	var all sync.WaitGroup
	var done, refused atomic.Int32
	for range 100 {
		all.Go(func() {
			switch err := l.Heartbeat(ctx, "me", time.Now()); {
			case err == nil:
				done.Add(1)
			case errors.Is(err, errClosed):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if done.Load()+refused.Load() != 100 {
		t.Errorf("%d done, %d refused", done.Load(), refused.Load())
	}
	if err := l.Heartbeat(ctx, "me", time.Now()); !errors.Is(err, errClosed) {
		t.Errorf("after closing: %v", err)
	}
}

// Now and then the scheduler takes the writer first, whatever else could run.
func TestWrite_ThoseAboutToBeQueuedJoinTheBatch(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	most := 0
	for range 20 {
		queue := make(chan *write, maxQueued)
		for range 99 {
			go func() { queue <- &write{} }()
		}
		most = max(most, len(gather(&write{}, queue)))
	}
	if most != 100 {
		t.Errorf("%d of 100 writes came into one batch, at most", most)
	}
}

package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func openFile(t *testing.T) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// durability is what SQLite's commits wait for: 1 nothing, 2 the disk.
func durability(t *testing.T, l *Ledger) (level int) {
	t.Helper()
	if err := l.db.Writer.QueryRowContext(context.Background(), "PRAGMA synchronous").Scan(&level); err != nil {
		t.Fatal(err)
	}
	return level
}

func TestOnlyTheBeginningOfASettlementWaitsForTheDisk(t *testing.T) {
	l := openFile(t)
	ctx := context.Background()
	key := payment.Key{Network: "n", Asset: "a", Payer: "p", Nonce: "1"}
	steps := []struct {
		name string
		do   func() error
		want int
	}{
		{"beat", func() error { return l.Beat(ctx, "me", time.Now().Add(time.Hour)) }, 1},
		{"claim", func() error {
			_, _, err := l.Claim(ctx, payment.Record{Key: key, Owner: "me", Deadline: time.Now().Add(time.Hour), Amount: "1"})
			return err
		}, 1},
		{"begin", func() error {
			_, err := l.Begin(ctx, key, "me", payment.Settlement{Answer: []byte("{}"), Month: "2026-11", Limit: 1, Deadline: time.Now().Add(time.Hour)})
			return err
		}, 2},
		{"finish", func() error {
			_, err := l.Finish(ctx, key, payment.Outcome{State: payment.Settled})
			return err
		}, 1},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if got := durability(t, l); got != s.want {
			t.Errorf("after %s commits wait for %d, want %d", s.name, got, s.want)
		}
	}
}

func TestWritesThatComeTogetherShareACommit(t *testing.T) {
	l := openFile(t)
	var transactions atomic.Int32
	var before *sql.Tx
	blocked := make(chan struct{})
	go func() {
		_ = l.writes.do(context.Background(), false, func(context.Context, *sql.Tx) error {
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
			err := l.writes.do(context.Background(), true, func(_ context.Context, tx *sql.Tx) error {
				if tx != before {
					before = tx
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

func TestAWriteThatFailsDoesNotSpoilTheOthers(t *testing.T) {
	l := openFile(t)
	failure := errors.New("refused")
	var failed atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			err := l.writes.do(context.Background(), false, func(ctx context.Context, tx *sql.Tx) error {
				if i%10 == 0 {
					return failure
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO owners (id, alive_until) VALUES (?, 1)", i)
				return err
			})
			switch {
			case errors.Is(err, failure):
				failed.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
	}
	all.Wait()
	var written int
	if err := l.db.Reader.QueryRowContext(context.Background(), "SELECT count(*) FROM owners").Scan(&written); err != nil {
		t.Fatal(err)
	}
	if failed.Load() != 10 || written != 90 {
		t.Errorf("%d failed, %d were written", failed.Load(), written)
	}
}

func TestClosingFinishesQueuedWritesAndRefusesMore(t *testing.T) {
	l := openFile(t)
	ctx := context.Background()
	var all sync.WaitGroup
	var done, refused atomic.Int32
	for range 100 {
		all.Go(func() {
			switch err := l.Beat(ctx, "me", time.Now()); {
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
	if err := l.Beat(ctx, "me", time.Now()); !errors.Is(err, errClosed) {
		t.Errorf("after closing: %v", err)
	}
}

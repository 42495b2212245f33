package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
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

// disk is what the ledger waits for: each sync takes until it is let go.
type disk struct {
	syncs atomic.Int32
	let   chan error
}

func (d *disk) sync() error {
	d.syncs.Add(1)
	return <-d.let
}

// onDisk opens a ledger on such a disk.
func onDisk(t *testing.T) (*Ledger, *disk) {
	t.Helper()
	l, d := openFile(t), &disk{let: make(chan error)}
	l.writes.close()
	l.writes = newBatcher(l.db, l.prepared.count, d.sync)
	return l, d
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
	_, err := l.Begin(context.Background(), key, "me", payment.Settlement{Answer: []byte("{}"), Month: "2026-11", Limit: 1000, Deadline: time.Now().Add(time.Hour)})
	return err
}

func TestOnlyTheBeginningOfASettlementWaitsForTheDisk(t *testing.T) {
	l, d := onDisk(t)
	key, begun := claim(t, l, "1"), make(chan error)
	go func() { begun <- begin(l, key) }()
	for d.syncs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	// Written, but not on the disk: everybody else goes on.
	other := claim(t, l, "2")
	for what, err := range map[string]error{
		"beat":    l.Beat(context.Background(), "me", time.Now().Add(time.Hour)),
		"release": l.Release(context.Background(), other, "me"),
		"finish": func() error {
			_, err := l.Finish(context.Background(), key, payment.Outcome{State: payment.Unknown})
			return err
		}(),
	} {
		if err != nil {
			t.Errorf("%s while the disk is at work: %v", what, err)
		}
	}
	select {
	case err := <-begun:
		t.Fatalf("a settlement began before it was on the disk: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	d.let <- nil
	if err := <-begun; err != nil {
		t.Error(err)
	}
}

func TestAnEndThatMustBeDurableWaitsForTheDisk(t *testing.T) {
	l, d := onDisk(t)
	key, ended := claim(t, l, "1"), make(chan error)
	go func() { d.let <- nil }()
	if err := begin(l, key); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := l.Finish(context.Background(), key, payment.Outcome{State: payment.Settled, Transaction: "0xtx", Durable: true})
		ended <- err
	}()
	for d.syncs.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended before it was on the disk: %v", err)
	case d.let <- nil:
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A beginning that is refused has written nothing: it waits for no disk, or those
// who wait for their turn would make it busy.
func TestARefusedBeginningDoesNotWaitForTheDisk(t *testing.T) {
	l, d := onDisk(t)
	_, err := l.Begin(context.Background(), claim(t, l, "1"), "me", payment.Settlement{Answer: []byte("{}"), Month: "2026-11", Limit: 0, Deadline: time.Now().Add(time.Hour)})
	if !errors.Is(err, payment.ErrLimit) || d.syncs.Load() != 0 {
		t.Errorf("got %v after %d syncs", err, d.syncs.Load())
	}
}

func TestABeginningThatDoesNotReachTheDiskFails(t *testing.T) {
	l, d := onDisk(t)
	broken := errors.New("the disk is broken")
	go func() { d.let <- broken }()
	if err := begin(l, claim(t, l, "1")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	// The system reports it once: nobody may ask again and believe the answer.
	close(d.let)
	if _, _, err := l.Claim(context.Background(), payment.Record{Key: payment.Key{Nonce: "2"}, Owner: "me"}); !errors.Is(err, broken) {
		t.Errorf("a claim after that: %v", err)
	}
	if err := l.Ping(context.Background()); !errors.Is(err, broken) {
		t.Errorf("the ledger's health after that: %v", err)
	}
	if n := d.syncs.Load(); n != 1 {
		t.Errorf("the disk was asked %d times", n)
	}
}

func TestABeginningCommittedBeforeTheDiskFailedFailsToo(t *testing.T) {
	l, d := onDisk(t)
	first, second := claim(t, l, "1"), claim(t, l, "2")
	ended := make(chan error, 2)
	go func() { ended <- begin(l, first) }()
	for d.syncs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { ended <- begin(l, second) }()
	for len(l.writes.unsynced) == 0 {
		time.Sleep(time.Millisecond)
	}
	broken := errors.New("the disk is broken")
	d.let <- broken
	for range 2 {
		if err := <-ended; !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAnotherWritersLockEndsAWriteInTime(t *testing.T) {
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
			if err := l.Beat(context.Background(), "me", time.Now()); err == nil {
				t.Error("a write went past another's lock")
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 2*batchTimeout+5*time.Second {
		t.Errorf("writes waited %v for another's lock", took)
	}
}

func TestBeginningsThatComeTogetherShareTheDisk(t *testing.T) {
	l, d := onDisk(t)
	var all sync.WaitGroup
	for i := range 100 {
		key := claim(t, l, strconv.Itoa(i))
		all.Go(func() {
			if err := begin(l, key); err != nil {
				t.Error(err)
			}
		})
		for i == 0 && d.syncs.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for len(l.writes.unsynced) < 99 {
		time.Sleep(time.Millisecond)
	}
	close(d.let)
	all.Wait()
	if n := d.syncs.Load(); n != 2 {
		t.Errorf("100 beginnings took %d syncs", n)
	}
}

func TestWritesThatComeTogetherShareACommit(t *testing.T) {
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

// Now and then the scheduler takes the writer first, whoever else could run.
func TestWhoIsAboutToQueueIsWaitedFor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	most := 0
	for range 20 {
		queue := make(chan *write, maxQueued)
		queue <- &write{}
		for range 99 {
			go func() { queue <- &write{} }()
		}
		for batch := range batches(queue) {
			most = max(most, len(batch))
			break
		}
	}
	if most != 100 {
		t.Errorf("%d of 100 writes came into one batch, at most", most)
	}
}

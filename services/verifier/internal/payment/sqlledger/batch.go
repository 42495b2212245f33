package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
)

// Bounds of the group commit.
const (
	maxBatch     = 256
	maxQueued    = 1024
	batchTimeout = 10 * time.Second
)

// errClosed is returned for writes after Close.
var errClosed = errors.New("ledger is closed")

// write is one change waiting for its batch. run may be called more than once,
// each time in a fresh transaction, so it must not add to what it returns.
type write struct {
	durable bool
	run     func(ctx context.Context, u *unit) error
	done    chan error
	// waits is durable, unless run has found nothing to write.
	waits bool
}

// batcher carries writes out, one batch after the other. While a batch is
// written the next one gathers, so that many payments at once share a commit.
// Where commits do not wait for the disk by themselves, those that must be on it
// wait together, and the next batch does not wait for them.
type batcher struct {
	db    *sqldb.DB
	count *sql.Stmt // countSQL
	// sync returns when what was committed is on the disk; nil where commits
	// themselves do.
	sync  func() error
	ended sync.WaitGroup

	mu       sync.RWMutex // held for reading while something is put into queue
	closed   bool
	queue    chan *write
	unsynced chan *write

	// broken is why the disk no longer takes what is committed: nothing is
	// written after that, because nobody could say what is left of it.
	broken atomic.Pointer[error]
}

func newBatcher(db *sqldb.DB, count *sql.Stmt, syncLog func() error) *batcher {
	b := &batcher{db: db, count: count, sync: syncLog, queue: make(chan *write, maxQueued), unsynced: make(chan *write, maxQueued)}
	b.ended.Go(b.write)
	b.ended.Go(b.flush)
	return b
}

// close waits for the writes that were queued before it.
func (b *batcher) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.queue)
	}
	b.mu.Unlock()
	b.ended.Wait()
}

// do queues a write and waits for its commit. ctx ends only the waiting for a
// place in the queue: a queued write is carried out, and its caller told so.
func (b *batcher) do(ctx context.Context, durable bool, run func(context.Context, *unit) error) error {
	w := &write{durable: durable, run: run, done: make(chan error, 1)}
	ctx, span := tracing.Call(ctx, "sql", "write payment")
	err := b.enqueue(ctx, w)
	if err == nil {
		err = <-w.done
	}
	span.End(tracing.Failed(err))
	return err
}

func (b *batcher) enqueue(ctx context.Context, w *write) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return errClosed
	}
	if err := b.health(); err != nil {
		return err
	}
	select {
	case b.queue <- w:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("queue a ledger write: %w", ctx.Err())
	}
}

// write commits batch after batch.
func (b *batcher) write() {
	defer close(b.unsynced)
	for batch := range batches(b.queue) {
		b.commit(batch)
	}
}

// flush waits for the disk, once for all that was committed meanwhile.
func (b *batcher) flush() {
	for batch := range batches(b.unsynced) {
		err := b.health()
		if err == nil {
			if err = b.sync(); err != nil {
				err = fmt.Errorf("the ledger is closed until it is opened anew: %w", err)
				b.broken.Store(&err)
			}
		}
		for _, w := range batch {
			w.done <- err
		}
	}
}

// health is nil as long as the disk takes what is committed.
func (b *batcher) health() error {
	if err := b.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// batches gives what is in a queue, together, until the queue is closed. What it
// gives is good until the next.
func batches(queue <-chan *write) iter.Seq[[]*write] {
	return func(yield func([]*write) bool) {
		batch := make([]*write, 0, maxBatch)
		for first := range queue {
			letGather(queue)
			batch = append(batch[:0], first)
			for len(batch) < maxBatch && len(queue) > 0 {
				w, ok := <-queue
				if !ok {
					break
				}
				batch = append(batch, w)
			}
			if !yield(batch) {
				return
			}
		}
	}
}

// letGather lets those run who are about to put something into a queue, as long
// as somebody does: a commit costs what several writes do. On a machine that is
// idle there is nobody.
func letGather(queue <-chan *write) {
	for before := -1; before < len(queue) && len(queue) < maxBatch; {
		before = len(queue)
		runtime.Gosched()
	}
}

// commit runs a batch in one transaction. When that fails, and not for want of
// time, each write runs alone, so that one that the database refuses does not
// spoil the others.
func (b *batcher) commit(batch []*write) {
	err := b.transaction(batch)
	if err == nil || len(batch) == 1 || errors.Is(err, context.DeadlineExceeded) {
		for _, w := range batch {
			b.committed(w, err)
		}
		return
	}
	for _, w := range batch {
		b.committed(w, b.transaction([]*write{w}))
	}
}

// committed tells the caller of a write, unless the disk comes first.
func (b *batcher) committed(w *write, err error) {
	if err == nil && w.waits && b.sync != nil {
		b.unsynced <- w
		return
	}
	w.done <- err
}

func (b *batcher) transaction(batch []*write) error {
	bounded, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	durable := slices.ContainsFunc(batch, func(w *write) bool { return w.durable })
	return b.db.Tx(bounded, func(tx *sql.Tx) error {
		ctx := b.statement(bounded)
		if !durable && b.db.Dialect == sqldb.Postgres {
			if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = off"); err != nil {
				return fmt.Errorf("relax the commit: %w", err)
			}
		}
		u := &unit{Tx: tx, dialect: b.db.Dialect, count: b.count}
		for _, w := range batch {
			w.waits, u.under = w.durable, w
			if err := w.run(ctx, u); err != nil {
				return err
			}
		}
		return u.end(ctx)
	})
}

// statement gives a transaction's statements their context. On SQLite it does not
// end: the lock is taken by then, a statement takes microseconds, and for each
// one database/sql and the driver would keep a goroutine ready to break it off.
func (b *batcher) statement(bounded context.Context) context.Context {
	if b.db.Dialect == sqldb.SQLite {
		return context.WithoutCancel(bounded)
	}
	return bounded
}

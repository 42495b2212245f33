package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
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
	// durable makes the batch wait until it is on the disk.
	durable bool
	run     func(ctx context.Context, u *unit) error
	done    chan error
}

// batcher commits writes in batches, one after the other. While a batch is
// written the next one is queued, so that many payments at once share a commit
// and its wait for the disk.
type batcher struct {
	db    *sqldb.DB
	count *sql.Stmt // countSQL
	// durable and relaxed run a transaction whose commit waits, or does not wait,
	// for the disk.
	durable, relaxed func(context.Context, func(*sql.Tx) error) error
	ended            chan struct{}

	mu     sync.RWMutex // held for reading while something is put into queue
	closed bool
	queue  chan *write
}

func newBatcher(db *sqldb.DB, count *sql.Stmt) *batcher {
	b := &batcher{db: db, count: count, durable: db.Tx, relaxed: db.TxRelaxed, ended: make(chan struct{}), queue: make(chan *write, maxQueued)}
	go b.run()
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
	<-b.ended
}

// do queues a write and waits for its commit. ctx ends only the waiting for a
// place in the queue: a queued write is carried out, and its result returned.
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
	select {
	case b.queue <- w:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("queue a ledger write: %w", ctx.Err())
	}
}

// run commits what is queued, batch after batch, until the queue is closed.
func (b *batcher) run() {
	defer close(b.ended)
	for first := range b.queue {
		b.commit(gather(first, b.queue))
	}
}

// gather returns a write and those that are queued behind it. It first yields the
// processor to goroutines that are about to queue one, as long as some do: a
// commit costs as much as several writes. On an idle machine there are none.
func gather(first *write, queue <-chan *write) []*write {
	for before := -1; before < len(queue) && len(queue) < maxBatch; {
		before = len(queue)
		runtime.Gosched()
	}
	batch := []*write{first}
	for len(batch) < maxBatch && len(queue) > 0 {
		w, ok := <-queue
		if !ok {
			break
		}
		batch = append(batch, w)
	}
	return batch
}

// commit runs a batch in one transaction. When that fails, and not because of its
// timeout, each write runs alone, so that one that the database refuses does not
// fail the others.
func (b *batcher) commit(batch []*write) {
	err := b.transaction(batch)
	if err == nil || len(batch) == 1 || errors.Is(err, context.DeadlineExceeded) {
		for _, w := range batch {
			w.done <- err
		}
		return
	}
	for _, w := range batch {
		w.done <- b.transaction([]*write{w})
	}
}

func (b *batcher) transaction(batch []*write) error {
	bounded, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	tx := b.relaxed
	if slices.ContainsFunc(batch, func(w *write) bool { return w.durable }) {
		tx = b.durable
	}
	return tx(bounded, func(tx *sql.Tx) error {
		ctx := b.statement(bounded)
		u := &unit{Tx: tx, db: b.db, count: b.count}
		for _, w := range batch {
			if err := w.run(ctx, u); err != nil {
				return err
			}
		}
		return u.end(ctx)
	})
}

// statement returns the context of a transaction's statements. On SQLite it does
// not end: the lock is held by then, a statement takes microseconds, and for each
// one database/sql and the driver would start a goroutine to cancel it.
func (b *batcher) statement(bounded context.Context) context.Context {
	if b.db.Dialect == sqldb.SQLite {
		return context.WithoutCancel(bounded)
	}
	return bounded
}

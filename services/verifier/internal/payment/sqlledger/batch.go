package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	durable bool
	run     func(ctx context.Context, tx *sql.Tx) error
	done    chan error
}

// batcher carries writes out, one batch after the other. While a batch is on
// its way to the disk the next one gathers: a write waits for two commits at
// most, and many payments at once share one.
type batcher struct {
	db    *sqldb.DB
	ended sync.WaitGroup

	mu     sync.RWMutex // held for reading while something is put into queue
	closed bool
	queue  chan *write

	// relaxed tells that the SQLite connection does not wait for the disk now.
	relaxed bool
}

func newBatcher(db *sqldb.DB) *batcher {
	b := &batcher{db: db, queue: make(chan *write, maxQueued)}
	b.ended.Go(b.loop)
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
func (b *batcher) do(ctx context.Context, durable bool, run func(context.Context, *sql.Tx) error) error {
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

func (b *batcher) loop() {
	batch := make([]*write, 0, maxBatch)
	for first := range b.queue {
		batch = append(batch[:0], first)
		for len(batch) < maxBatch && len(b.queue) > 0 {
			w, ok := <-b.queue
			if !ok {
				break
			}
			batch = append(batch, w)
		}
		b.commit(batch)
	}
}

// commit runs a batch in one transaction. When that fails, each write runs
// alone, so that one that the database refuses does not spoil the others.
func (b *batcher) commit(batch []*write) {
	err := b.transaction(batch)
	if err == nil || len(batch) == 1 {
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
	ctx, cancel := b.bound()
	defer cancel()
	durable := slices.ContainsFunc(batch, func(w *write) bool { return w.durable })
	if err := b.relax(ctx, !durable); err != nil {
		return err
	}
	return b.db.Tx(ctx, func(tx *sql.Tx) error {
		if !durable && b.db.Dialect == sqldb.Postgres {
			if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = off"); err != nil {
				return fmt.Errorf("relax the commit: %w", err)
			}
		}
		for _, w := range batch {
			if err := w.run(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// bound gives a transaction its time. On SQLite it has none: a statement takes
// microseconds and waits for a lock no longer than busy_timeout, and for a
// context that may end database/sql and the driver each keep a goroutine ready,
// for every statement.
func (b *batcher) bound() (context.Context, context.CancelFunc) {
	if b.db.Dialect == sqldb.SQLite {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), batchTimeout)
}

// relax sets whether SQLite's commits wait for the disk. A connection that was
// opened anew waits, which is the safe side.
func (b *batcher) relax(ctx context.Context, relaxed bool) error {
	if b.db.Dialect != sqldb.SQLite || b.relaxed == relaxed {
		return nil
	}
	level := "FULL"
	if relaxed {
		level = "NORMAL"
	}
	if _, err := b.db.Writer.ExecContext(ctx, "PRAGMA synchronous="+level); err != nil {
		return fmt.Errorf("set the ledger's durability: %w", err)
	}
	b.relaxed = relaxed
	return nil
}

package ledger

import (
	"cmp"
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
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Bounds of the group commit: of the writes in a batch, of those that wait, and of a batch's time.
const (
	maxBatch     = 256
	maxQueued    = 1024
	batchTimeout = 10 * time.Second
)

// errClosed is returned for writes after Close.
var errClosed = errors.New("ledger is closed")

// write runs a change in a transaction shared with others, and waits for the commit, on disk if
// durable. run may be called again after a rollback, so it must reset the variables that it sets;
// what prefixes the errors that are no refusals.
func (l *Ledger) write(ctx context.Context, what string, durable bool, run func(context.Context, *unit) error) error {
	err := l.writes.do(ctx, durable, run)
	if err == nil || isRefusal(err) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// exec makes a change that is one statement and need not be durable, and reports
// whether it changed a row.
func (l *Ledger) exec(ctx context.Context, what, query string, args ...any) (changed bool, err error) {
	err = l.write(ctx, what, false, func(ctx context.Context, u *unit) (err error) {
		changed, err = u.exec(ctx, query, args...)
		return err
	})
	return changed, err
}

// isRefusal reports whether err is one of the errors below, which a write returns for what it has
// found. A write that returns one does not fail its batch: what it changed before is committed too.
func isRefusal(err error) bool {
	return slices.ContainsFunc([]error{
		payment.ErrNotFound, payment.ErrLost, payment.ErrLimit, payment.ErrFailing, payment.ErrStrangers,
		payment.ErrCrowded, payment.ErrUsed, payment.ErrBooked, payment.ErrTooMuch, payment.ErrClosed,
	},
		func(refusal error) bool { return errors.Is(err, refusal) })
}

// write is one change waiting for its batch.
type write struct {
	// durable makes the batch wait until it is on the disk.
	durable bool
	run     func(ctx context.Context, u *unit) error
	refused error // what the last run returned
	done    chan error
}

// batcher commits writes in batches, one after the other. While a batch is
// written the next one is queued, so that many payments at once share a commit
// and its wait for the disk.
type batcher struct {
	ledger *Ledger
	// durable and relaxed run a transaction whose commit waits, or does not wait,
	// for the disk.
	durable, relaxed func(context.Context, func(*sql.Tx) error) error
	ended            chan struct{}

	mu     sync.RWMutex // held for reading while something is put into queue
	closed bool
	queue  chan *write
}

func newBatcher(l *Ledger) *batcher {
	b := &batcher{
		ledger: l, durable: l.db.Tx, relaxed: l.db.TxRelaxed, ended: make(chan struct{}),
		queue: make(chan *write, maxQueued),
	}
	go b.run()
	return b
}

// close lets no further write in, and waits for those that were queued.
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
	if isRefusal(err) { // which is an answer
		span.End("")
	} else {
		span.End(tracing.Failed(err))
	}
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

// gather returns a write and those that are queued behind it, at most maxBatch. It first yields the
// processor to goroutines that are about to queue one, as long as some do: a commit costs as much
// as several writes. On an idle machine there are none.
func gather(first *write, queue <-chan *write) []*write {
	for before := -1; before < len(queue) && len(queue) < maxBatch; {
		before = len(queue)
		runtime.Gosched()
	}
	batch := []*write{first}
	for len(batch) < maxBatch && len(queue) > 0 {
		batch = append(batch, <-queue)
	}
	return batch
}

// commit runs a batch in one transaction, and tells each write its result. When the transaction of
// several writes fails, and not because of its timeout, each runs alone, so that one that the
// database refuses does not fail the others. Once the database takes too long, the rest fail with
// it: their callers have waited as long.
func (b *batcher) commit(batch []*write) {
	err := b.transaction(batch)
	alone := err != nil && len(batch) > 1
	for _, w := range batch {
		if alone && !errors.Is(err, context.DeadlineExceeded) {
			err = b.transaction([]*write{w})
		}
		w.done <- cmp.Or(err, w.refused)
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
		ctx := bounded
		if b.ledger.db.Dialect == sqldb.SQLite {
			// The lock is held by now and a statement takes microseconds: for each one
			// database/sql and the driver would start a goroutine to cancel it.
			ctx = context.WithoutCancel(bounded)
		}
		u := &unit{Tx: tx, Ledger: b.ledger}
		for _, w := range batch {
			if w.refused = w.run(ctx, u); w.refused != nil && !isRefusal(w.refused) {
				return w.refused
			}
		}
		return u.end(ctx)
	})
}

// unit is the transaction of a batch. The settlements of a month are read when
// the first of its writes needs them, and written once, at the end, if there are
// more or fewer: a transaction that changes nothing does not wait for the disk.
type unit struct {
	*sql.Tx
	*Ledger
	months map[string]*tally
}

func (u *unit) exec(ctx context.Context, query string, args ...any) (changed bool, err error) {
	return u.db.Exec(ctx, u.Tx, query, bind(args)...)
}

func (u *unit) row(ctx context.Context, query string, args ...any) *sql.Row {
	return u.rowOf(ctx, u.Tx, query, args...)
}

const (
	reservedSQL = "SELECT COALESCE((SELECT reserved FROM settlements WHERE month = ?), 0)"
	countSQL    = `INSERT INTO settlements (month, reserved) VALUES (?, ?)
	ON CONFLICT (month) DO UPDATE SET reserved = settlements.reserved + excluded.reserved`
)

// tally is a month's reserved settlements, and how many the unit has added.
type tally struct{ reserved, added int }

// month returns a month's tally. From then on, until the unit ends, no other replica gets past
// this point: month takes one lock for all months, because the clocks of replicas may be in different
// ones. SQLite's write transactions are alone anyway.
func (u *unit) month(ctx context.Context, name string) (*tally, error) {
	if t, ok := u.months[name]; ok {
		return t, nil
	}
	if u.db.Dialect == sqldb.Postgres {
		if _, err := u.exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('pforte: settlements'))"); err != nil {
			return nil, fmt.Errorf("lock the settlements: %w", err)
		}
	}
	t := &tally{}
	if err := u.row(ctx, reservedSQL, name).Scan(&t.reserved); err != nil {
		return nil, fmt.Errorf("count settlements: %w", err)
	}
	if u.months == nil {
		u.months = map[string]*tally{}
	}
	u.months[name] = t
	return t, nil
}

func (u *unit) add(ctx context.Context, month string, n int) error {
	t, err := u.month(ctx, month)
	if err != nil {
		return err
	}
	t.reserved += n
	t.added += n
	return nil
}

// end writes, for each month, by how many settlements the unit has changed its count.
func (u *unit) end(ctx context.Context) error {
	for name, t := range u.months {
		if t.added == 0 {
			continue
		}
		if _, err := u.exec(ctx, countSQL, name, t.added); err != nil {
			return fmt.Errorf("write the month's settlements: %w", err)
		}
	}
	return nil
}

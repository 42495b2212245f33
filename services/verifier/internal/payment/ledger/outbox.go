package ledger

import (
	"context"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// What a sale leaves for others: the entry of its answer for the log of receipts, and its
// block for a proof of finality. Both are queued in the transaction that changes the payment.

// entry is an entry of the log as it is queued; bytes is nil where there is none.
type entry struct{ leaf, bytes []byte }

// entryOf returns the entry of an answer; none where the ledger has no log.
func (l *Ledger) entryOf(answer []byte) (entry, error) {
	if !l.logs {
		return entry{}, nil
	}
	e, err := receiptlog.EntryOfAnswer(answer)
	if err != nil {
		return entry{}, fmt.Errorf("entry of an answer: %w", err)
	}
	leaf := e.Leaf()
	return entry{leaf: leaf[:], bytes: e.Bytes()}, nil
}

const (
	enqueueSaleSQL = "INSERT INTO log_queue (leaf, entry, queued, source) VALUES (?, ?, ?, COALESCE((SELECT id FROM payments WHERE" + byKey + "), 0))"
	placedSQL      = "SELECT EXISTS (SELECT 1 FROM log_entries WHERE log = (SELECT max(log) FROM log_head) AND leaf = ?)"
)

// enqueueSale queues the entry of a payment's answer.
func (u *unit) enqueueSale(ctx context.Context, key payment.Key, e entry) error {
	_, err := u.exec(ctx, enqueueSaleSQL, e.leaf, e.bytes, u.now(), key)
	return err
}

// Anew implements payment.Ledger. An entry that has its place needs no other.
func (l *Ledger) Anew(ctx context.Context, key payment.Key, answer []byte) (payment.Answer, error) {
	e, err := l.entryOf(answer)
	if err != nil {
		return payment.Answer{}, err
	}
	placed := e.bytes == nil
	if !placed {
		if err := l.row(ctx, placedSQL, e.leaf).Scan(&placed); err != nil {
			return payment.Answer{}, fmt.Errorf("find an entry of the log: %w", err)
		}
	}
	if !placed {
		err = l.write(ctx, "queue an entry of the log", true, func(ctx context.Context, u *unit) error {
			return u.enqueueSale(ctx, key, e)
		})
	}
	if err != nil {
		return payment.Answer{}, err
	}
	return payment.Queued(answer), nil
}

package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
	enqueueSaleSQL = "INSERT INTO log_queue (leaf, entry, queued, source) " +
		"VALUES (?, ?, ?, COALESCE((SELECT id FROM payments WHERE" + byKey + "), 0))"
	placedSQL = "SELECT EXISTS (SELECT 1 FROM log_entries " +
		"WHERE log = (SELECT max(log) FROM log_head) AND leaf = ?)"
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
	var block *soldBlock
	if len(l.finality) > 0 {
		block = blockOf(answer)
	}
	if !placed || block != nil {
		err = l.write(ctx, "queue an answer that was made anew", !placed, func(ctx context.Context, u *unit) error {
			if !placed {
				if err := u.enqueueSale(ctx, key, e); err != nil {
					return err
				}
			}
			return u.queueSold(ctx, payment.ByBuyer, block)
		})
	}
	if err != nil {
		return payment.Answer{}, err
	}
	return payment.Queued(answer), nil
}

// soldBlock is a block about which a receipt was sold.
type soldBlock struct {
	Chain  string // CAIP-2, "eip155:1"
	Hash   payment.Digest
	Number uint64
}

const queueBlockSQL = "INSERT INTO finality_queue (chain, block_hash, number, queued) VALUES (?, ?, ?, ?)"

// blockOf returns the block that an answer is about, nil where it names none.
func blockOf(answer []byte) *soldBlock {
	var read struct {
		Receipt struct {
			Chain struct {
				ID string `json:"id"`
			} `json:"chain"`
			Block struct {
				Number string `json:"number"`
				Hash   string `json:"hash"`
			} `json:"block"`
		} `json:"receipt"`
	}
	if json.Unmarshal(answer, &read) != nil {
		return nil
	}
	hash, err := hex.DecodeString(strings.TrimPrefix(read.Receipt.Block.Hash, "0x"))
	number, numberErr := strconv.ParseInt(read.Receipt.Block.Number, 10, 64)
	if err != nil || numberErr != nil || number < 0 || len(hash) != len(payment.Digest{}) ||
		read.Receipt.Chain.ID == "" {
		return nil
	}
	return &soldBlock{Chain: read.Receipt.Chain.ID, Hash: payment.Digest(hash), Number: uint64(number)}
}

// sold returns the block that the answer of a payment is about, nil where the answer is
// not there.
func (l *Ledger) sold(ctx context.Context, key payment.Key) (*soldBlock, error) {
	var answer []byte
	err := l.row(ctx, answerSQL, key).Scan(&answer)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, fmt.Errorf("read what was sold: %w", err)
	}
	return blockOf(answer), nil
}

const answerSQL = "SELECT answer FROM answers WHERE payment = (SELECT id FROM payments WHERE" + byKey + ")"

// queueBlock queues a block that was sold for its proof of finality.
func (u *unit) queueBlock(ctx context.Context, b *soldBlock) error {
	_, err := u.exec(ctx, queueBlockSQL, b.Chain, b.Hash, int64(b.Number), u.now())
	return err
}

func flag(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

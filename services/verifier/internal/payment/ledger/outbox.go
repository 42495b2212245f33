package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// What a sale leaves for others: the entries of its answer for the log of receipts, and its blocks
// for proofs of finality. They are queued in the transaction that changes the payment, if one
// does.

// entries are entries of the log as they are queued, one for each receipt that is sold: their
// leaves and their bytes, in order.
type entries struct{ leaves, bytes [][]byte }

// entriesOf returns the entries of an answer; none where the ledger has no log.
func (l *Ledger) entriesOf(answer []byte) (all entries, err error) {
	if !l.logs {
		return entries{}, nil
	}
	read, err := receiptlog.EntriesOfAnswer(answer)
	if err != nil {
		return entries{}, fmt.Errorf("entries of an answer: %w", err)
	}
	for _, e := range read {
		leaf := e.Leaf()
		all.leaves, all.bytes = append(all.leaves, leaf[:]), append(all.bytes, e.Bytes())
	}
	return all, nil
}

const (
	// enqueueSaleSQL takes the key of a record, and the key that it may have got meanwhile (Key.Bare).
	enqueueSaleSQL = "INSERT INTO log_queue (leaf, entry, queued, source) " +
		"VALUES (?, ?, ?, COALESCE((SELECT id FROM payments WHERE" + byKey + "), " +
		"(SELECT id FROM payments WHERE" + byKey + "), 0))"
	placedSQL = "SELECT EXISTS (SELECT 1 FROM log_entries " +
		"WHERE log = (SELECT max(log) FROM log_head) AND leaf = ?)"
)

func (u *unit) enqueueSale(ctx context.Context, key payment.Key, all entries) error {
	for i, leaf := range all.leaves {
		if _, err := u.exec(ctx, enqueueSaleSQL, leaf, all.bytes[i], u.now(), key, key.Bare()); err != nil {
			return err
		}
	}
	return nil
}

// Anew implements payment.Ledger. It queues no entry that has its place in the log.
func (l *Ledger) Anew(ctx context.Context, key payment.Key, answer []byte) (payment.Answer, error) {
	all, err := l.entriesOf(answer)
	if err != nil {
		return payment.Answer{}, err
	}
	var missing entries
	for i, leaf := range all.leaves {
		var placed bool
		if err := l.row(ctx, placedSQL, leaf).Scan(&placed); err != nil {
			return payment.Answer{}, fmt.Errorf("find an entry of the log: %w", err)
		}
		if !placed {
			missing.leaves, missing.bytes = append(missing.leaves, leaf), append(missing.bytes, all.bytes[i])
		}
	}
	var blocks []soldBlock
	if len(l.finality) > 0 {
		blocks = blocksOf(answer)
	}
	if queues := len(missing.leaves) > 0; queues || len(blocks) > 0 {
		err = l.write(ctx, "queue an answer that was made anew", queues, func(ctx context.Context, u *unit) error {
			if err := u.enqueueSale(ctx, key, missing); err != nil {
				return err
			}
			return u.queueSold(ctx, payment.ByBuyer, blocks)
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

// blocksOf returns the blocks that an answer is about, each once; none where it names none.
func blocksOf(answer []byte) (blocks []soldBlock) {
	answers, err := receipt.SplitAnswers(answer)
	if err != nil {
		return nil
	}
	for _, single := range answers {
		if b := blockOf(single); b != nil && !slices.Contains(blocks, *b) {
			blocks = append(blocks, *b)
		}
	}
	return blocks
}

// blockOf returns the block that a single answer is about, nil where it names none.
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

// sold returns the blocks that the answer of a payment is about, none where the answer is
// not there.
func (l *Ledger) sold(ctx context.Context, key payment.Key) ([]soldBlock, error) {
	var answer []byte
	err := l.row(ctx, answerSQL, key).Scan(&answer)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was sold: %w", err)
	}
	return blocksOf(answer), nil
}

const answerSQL = "SELECT answer FROM answers WHERE payment = (SELECT id FROM payments WHERE" + byKey + ")"

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
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

var _ payment.FinalityStore = (*Ledger)(nil)

const queueBlockSQL = "INSERT INTO finality_queue (chain, block_hash, number, queued) VALUES (?, ?, ?, ?)"

// blockOf returns the block that an answer is about, nil where it names none.
func blockOf(answer []byte) *payment.SoldBlock {
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
	if err != nil || numberErr != nil || number < 0 || len(hash) != len(payment.Digest{}) || read.Receipt.Chain.ID == "" {
		return nil
	}
	return &payment.SoldBlock{Chain: read.Receipt.Chain.ID, Hash: payment.Digest(hash), Number: uint64(number)}
}

// sold returns the block that the answer of a payment is about, nil where the answer is
// not there.
func (l *Ledger) sold(ctx context.Context, key payment.Key) (*payment.SoldBlock, error) {
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

// Prune forgets proofs of blocks that were last sold before a moment. Those of blocks sold
// later begin at checkpoints that may be older: steps are kept for finalStepAge longer.
const (
	// sold is looked at once more, because another process may write it meanwhile.
	forgetBundlesSQL = `UPDATE finality_bundles SET state = 'expired', content = NULL WHERE sold < ? AND (chain, block_hash) IN
		(SELECT chain, block_hash FROM finality_bundles WHERE state <> 'expired' AND sold < ? ORDER BY sold LIMIT 1000)`
	forgetBlocksSQL = "DELETE FROM finality_queue WHERE id IN (SELECT id FROM finality_queue WHERE queued < ? LIMIT 1000)"
	finalStepAge    = 32 * 24 * time.Hour
)

const answerSQL = "SELECT answer FROM answers WHERE payment = (SELECT id FROM payments WHERE" + byKey + ")"

// queueBlock queues a block that was sold for its proof of finality.
func (u *unit) queueBlock(ctx context.Context, b *payment.SoldBlock) error {
	_, err := u.exec(ctx, queueBlockSQL, b.Chain, b.Hash, int64(b.Number), u.now())
	return err
}

// beside makes a change in a transaction of its own, not in the batch of what is sold. In
// that, sales would wait for a bundle that another process writes, and that process may wait
// for them.
func (l *Ledger) beside(ctx context.Context, what string, run func(context.Context, *unit) error) error {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	err := l.db.TxRelaxed(ctx, func(tx *sql.Tx) error { return run(ctx, &unit{Tx: tx, Ledger: l}) })
	if err == nil || isRefusal(err) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// execBeside is beside with one statement; it reports whether that changed a row.
func (l *Ledger) execBeside(ctx context.Context, what, query string, args ...any) (changed bool, err error) {
	err = l.beside(ctx, what, func(ctx context.Context, u *unit) (err error) {
		changed, err = u.exec(ctx, query, args...)
		return err
	})
	return changed, err
}

// TakeSold implements payment.FinalityStore.
func (l *Ledger) TakeSold(ctx context.Context, most int) (taken int, err error) {
	type queued struct {
		id     int64
		chain  string
		hash   []byte
		number int64
		at     int64
	}
	query := "SELECT id, chain, block_hash, number, queued FROM finality_queue ORDER BY id LIMIT ?"
	if l.db.Dialect == sqldb.Postgres {
		query += " FOR UPDATE SKIP LOCKED"
	}
	err = l.beside(ctx, "take sold blocks", func(ctx context.Context, u *unit) error {
		taken = 0
		rows, err := u.QueryContext(ctx, u.db.Rebind(query), most)
		list, err := sqldb.All(rows, err, func(row sqldb.Scanner) (q queued, err error) {
			return q, row.Scan(&q.id, &q.chain, &q.hash, &q.number, &q.at)
		})
		if err != nil {
			return err
		}
		// In one order in all processes, so that none waits for one that waits for it.
		slices.SortFunc(list, func(a, b queued) int { return strings.Compare(a.chain+string(a.hash), b.chain+string(b.hash)) })
		for _, q := range list {
			if _, err := u.exec(ctx, `INSERT INTO finality_bundles (chain, block_hash, number, state, sold, queued, try_at) VALUES (?, ?, ?, 'pending', ?, ?, ?)
				ON CONFLICT (chain, block_hash) DO UPDATE SET
				 sold = CASE WHEN finality_bundles.sold < excluded.sold THEN excluded.sold ELSE finality_bundles.sold END,
				 queued = CASE WHEN finality_bundles.state IN ('unavailable', 'expired') THEN excluded.queued ELSE finality_bundles.queued END,
				 try_at = CASE WHEN finality_bundles.state IN ('unavailable', 'expired') THEN excluded.try_at ELSE finality_bundles.try_at END,
				 tried = CASE WHEN finality_bundles.state IN ('unavailable', 'expired') THEN 0 ELSE finality_bundles.tried END,
				 tries = CASE WHEN finality_bundles.state IN ('unavailable', 'expired') THEN 0 ELSE finality_bundles.tries END,
				 state = CASE WHEN finality_bundles.state IN ('unavailable', 'expired') THEN 'pending' ELSE finality_bundles.state END`,
				q.chain, q.hash, q.number, q.at, q.at, q.at); err != nil {
				return err
			}
			if _, err := u.exec(ctx, "DELETE FROM finality_queue WHERE id = ?", q.id); err != nil {
				return err
			}
			taken++
		}
		return nil
	})
	return taken, err
}

const bundleColumns = "chain, block_hash, number, state, queued, tried, tries, period, anchor_slot, content, made"

func scanBundle(row sqldb.Scanner) (b payment.Bundle, err error) {
	var hash []byte
	var queued, tried, made int64
	if err := row.Scan(&b.Chain, &hash, &b.Number, &b.State, &queued, &tried, &b.Tries, &b.Period, &b.Slot, &b.Content, &made); err != nil {
		return b, err
	}
	copy(b.Hash[:], hash)
	b.Queued, b.Tried, b.Made = moment(queued), momentOrZero(tried), momentOrZero(made)
	return b, nil
}

// momentOrZero reads a moment of the tables that may be missing.
func momentOrZero(milliseconds int64) time.Time {
	if milliseconds == 0 {
		return time.Time{}
	}
	return moment(milliseconds)
}

// milliseconds returns a moment as the tables have it; 0 for the zero one.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Bundle implements payment.FinalityStore.
func (l *Ledger) Bundle(ctx context.Context, chain string, block payment.Digest) (payment.Bundle, error) {
	b, err := scanBundle(l.row(ctx, "SELECT "+bundleColumns+" FROM finality_bundles WHERE chain = ? AND block_hash = ?", chain, block))
	found := err == nil
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return b, fmt.Errorf("read a bundle: %w", err)
	case found && (b.State == payment.BundlePending || b.State == payment.BundleMade):
		return b, nil
	}
	var queued int64
	again := payment.Bundle{SoldBlock: payment.SoldBlock{Chain: chain, Hash: block}, State: payment.BundlePending}
	err = l.row(ctx, "SELECT number, queued FROM finality_queue WHERE chain = ? AND block_hash = ? ORDER BY id LIMIT 1", chain, block).Scan(&again.Number, &queued)
	switch {
	case err == nil:
		again.Queued = moment(queued)
		return again, nil
	case !errors.Is(err, sql.ErrNoRows):
		return b, fmt.Errorf("read the queue of bundles: %w", err)
	case !found:
		return b, payment.ErrNotFound
	}
	return b, nil
}

// DueBundles implements payment.FinalityStore.
func (l *Ledger) DueBundles(ctx context.Context, chain string, can payment.Makeable, next time.Time, most int) (due []payment.Bundle, err error) {
	query := "SELECT " + bundleColumns + " FROM finality_bundles WHERE state = 'pending' AND chain = ? AND try_at <= ? AND (number <= ? OR queued < ?) ORDER BY try_at LIMIT ?"
	if l.db.Dialect == sqldb.Postgres {
		query += " FOR UPDATE SKIP LOCKED"
	}
	err = l.beside(ctx, "take bundles to make", func(ctx context.Context, u *unit) error {
		rows, err := u.QueryContext(ctx, u.db.Rebind(query), bind([]any{chain, l.now(), int64(can.UpTo), can.QueuedBefore, most})...)
		if due, err = sqldb.All(rows, err, scanBundle); err != nil {
			return err
		}
		for _, b := range due {
			if _, err := u.exec(ctx, "UPDATE finality_bundles SET try_at = ? WHERE chain = ? AND block_hash = ?", next, chain, b.Hash); err != nil {
				return err
			}
		}
		return nil
	})
	return due, err
}

// KeepBundle implements payment.FinalityStore.
func (l *Ledger) KeepBundle(ctx context.Context, b payment.Bundle) error {
	return l.beside(ctx, "keep a bundle", func(ctx context.Context, u *unit) error {
		kept, err := u.exec(ctx, `UPDATE finality_bundles SET
			period = CASE state WHEN 'made' THEN period ELSE ? END, anchor_slot = CASE state WHEN 'made' THEN anchor_slot ELSE ? END,
			content = CASE state WHEN 'made' THEN content ELSE ? END, made = CASE state WHEN 'made' THEN made ELSE ? END, state = 'made'
			WHERE chain = ? AND block_hash = ? AND state <> 'expired'`,
			int64(b.Period), int64(b.Slot), b.Content, u.now(), b.Chain, b.Hash)
		if err == nil && !kept {
			err = payment.ErrNotFound
		}
		return err
	})
}

// PutOff implements payment.FinalityStore.
func (l *Ledger) PutOff(ctx context.Context, b payment.Bundle, next time.Time) error {
	_, err := l.execBeside(ctx, "put a bundle off", `UPDATE finality_bundles SET state = ?, tried = ?, tries = ?, try_at = ?
		WHERE chain = ? AND block_hash = ? AND state = 'pending'`, string(b.State), milliseconds(b.Tried), b.Tries, next, b.Chain, b.Hash)
	return err
}

const countBundlesSQL = `SELECT state, count(*) FROM finality_bundles WHERE chain = ? GROUP BY state
	UNION ALL SELECT 'pending', count(*) FROM finality_queue WHERE chain = ?`

// BundleCounts implements payment.FinalityStore.
func (l *Ledger) BundleCounts(ctx context.Context, chain string) (payment.BundleCounts, error) {
	counts := payment.BundleCounts{States: map[payment.BundleState]int{}}
	type count struct {
		state string
		n     int
	}
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind(countBundlesSQL), chain, chain)
	list, err := sqldb.All(rows, err, func(row sqldb.Scanner) (c count, err error) { return c, row.Scan(&c.state, &c.n) })
	if err != nil {
		return counts, fmt.Errorf("count bundles: %w", err)
	}
	for _, c := range list {
		counts.States[payment.BundleState(c.state)] += c.n
	}
	var oldest int64
	if err := l.row(ctx, `SELECT COALESCE(min(queued), 0) FROM (SELECT queued FROM finality_bundles WHERE chain = ? AND state = 'pending'
		UNION ALL SELECT queued FROM finality_queue WHERE chain = ?) AS waiting`, chain, chain).Scan(&oldest); err != nil {
		return counts, fmt.Errorf("read the oldest pending bundle: %w", err)
	}
	counts.Oldest = momentOrZero(oldest)
	return counts, nil
}

// KeepStep implements payment.FinalityStore.
func (l *Ledger) KeepStep(ctx context.Context, s payment.FinalityStep) error {
	return l.beside(ctx, "keep a step", func(ctx context.Context, u *unit) error {
		_, err := u.exec(ctx, `INSERT INTO finality_steps (chain, period, signers, final, step, written) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (chain, period) DO UPDATE SET
			 step = CASE WHEN excluded.signers > finality_steps.signers THEN excluded.step ELSE finality_steps.step END,
			 signers = CASE WHEN excluded.signers > finality_steps.signers THEN excluded.signers ELSE finality_steps.signers END,
			 final = CASE WHEN excluded.final > finality_steps.final THEN excluded.final ELSE finality_steps.final END`,
			s.Chain, int64(s.Period), s.Signers, flag(s.Final), s.Step, u.now())
		return err
	})
}

func flag(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// Steps implements payment.FinalityStore.
func (l *Ledger) Steps(ctx context.Context, chain string, first, last uint64) ([]payment.FinalityStep, error) {
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind("SELECT period, signers, final, step FROM finality_steps WHERE chain = ? AND period BETWEEN ? AND ? ORDER BY period"),
		chain, int64(first), int64(last))
	steps, err := sqldb.All(rows, err, func(row sqldb.Scanner) (payment.FinalityStep, error) {
		s := payment.FinalityStep{Chain: chain}
		var final int
		err := row.Scan(&s.Period, &s.Signers, &final, &s.Step)
		s.Final = final == 1
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read steps: %w", err)
	}
	for i := range steps {
		if steps[i].Period != first+uint64(i) {
			return steps[:i], nil
		}
	}
	return steps, nil
}

// KeepCheckpoint implements payment.FinalityStore.
func (l *Ledger) KeepCheckpoint(ctx context.Context, c payment.FinalityCheckpoint) error {
	return l.beside(ctx, "keep a checkpoint", func(ctx context.Context, u *unit) error {
		_, err := u.exec(ctx, `INSERT INTO finality_checkpoints (chain, root, slot, period, own, checkpoint, written) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (chain, root) DO UPDATE SET own = CASE WHEN excluded.own > finality_checkpoints.own THEN excluded.own ELSE finality_checkpoints.own END`,
			c.Chain, c.Root, int64(c.Slot), int64(c.Period), flag(c.Own), c.Checkpoint, u.now())
		return err
	})
}

func scanCheckpoint(row sqldb.Scanner) (c payment.FinalityCheckpoint, err error) {
	var root []byte
	var own int
	err = row.Scan(&c.Chain, &root, &c.Slot, &c.Period, &own, &c.Checkpoint)
	copy(c.Root[:], root)
	c.Own = own == 1
	return c, err
}

const checkpointSQL = "SELECT chain, root, slot, period, own, checkpoint FROM finality_checkpoints"

// Checkpoint implements payment.FinalityStore.
func (l *Ledger) Checkpoint(ctx context.Context, chain string, root payment.Digest) (payment.FinalityCheckpoint, error) {
	c, err := scanCheckpoint(l.row(ctx, checkpointSQL+" WHERE chain = ? AND root = ?", chain, root))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, payment.ErrNotFound
	case err != nil:
		return c, fmt.Errorf("read a checkpoint: %w", err)
	}
	return c, nil
}

// OwnCheckpoints implements payment.FinalityStore.
func (l *Ledger) OwnCheckpoints(ctx context.Context, chain string, from uint64) ([]payment.FinalityCheckpoint, error) {
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind(checkpointSQL+" WHERE chain = ? AND own = 1 AND slot >= ? ORDER BY slot"), chain, int64(from))
	list, err := sqldb.All(rows, err, scanCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return list, nil
}

package bundlesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
)

var _ beaconchain.Store = (*Store)(nil)

// Store implements beaconchain.Store on SQL.
type Store struct {
	db  *sqldb.DB
	now func() time.Time
}

// New returns a store in the database of the payments, which closes with the ledger that opened it.
func New(db *sqldb.DB, now func() time.Time) *Store { return &Store{db, now} }

const writeTimeout = 10 * time.Second

// write runs a transaction that is not one of the ledger's batches: in those, sales would wait for a bundle that
// another process writes, and that process may wait for them. Its commit may be lost when the power or
// Postgres fails.
func (s *Store) write(ctx context.Context, what string, do func(context.Context, *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := s.db.TxRelaxed(ctx, func(tx *sql.Tx) error { return do(ctx, tx) })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// exec is write with one statement; it reports whether that changed a row.
func (s *Store) exec(ctx context.Context, what, query string, args ...any) (changed bool, err error) {
	err = s.write(ctx, what, func(ctx context.Context, tx *sql.Tx) (err error) {
		changed, err = s.db.Exec(ctx, tx, query, args...)
		return err
	})
	return changed, err
}

// row reads one row outside of a transaction.
func (s *Store) row(ctx context.Context, query string, args ...any) *sql.Row {
	return s.db.Reader.QueryRowContext(ctx, s.db.Rebind(query), args...)
}

// takeSQL makes a bundle pending: a new one, or one that was given up or has expired. Of any other it only
// updates when the block was last sold.
const takeSQL = `INSERT INTO finality_bundles AS b (chain, block_hash, number, state, sold, queued, try_at)
	VALUES (?, ?, ?, 'pending', ?, ?, ?)
	ON CONFLICT (chain, block_hash) DO UPDATE SET
	 sold = CASE WHEN b.sold < excluded.sold THEN excluded.sold ELSE b.sold END,
	 queued = CASE WHEN b.state IN ('unavailable', 'expired') THEN excluded.queued ELSE b.queued END,
	 try_at = CASE WHEN b.state IN ('unavailable', 'expired') THEN excluded.try_at ELSE b.try_at END,
	 tried = CASE WHEN b.state IN ('unavailable', 'expired') THEN 0 ELSE b.tried END,
	 tries = CASE WHEN b.state IN ('unavailable', 'expired') THEN 0 ELSE b.tries END,
	 state = CASE WHEN b.state IN ('unavailable', 'expired') THEN 'pending' ELSE b.state END`

// TakeSold implements beaconchain.Store.
func (s *Store) TakeSold(ctx context.Context, most int) (taken int, err error) {
	type queued struct {
		id     int64
		chain  string
		hash   []byte
		number int64
		at     int64
	}
	query := "SELECT id, chain, block_hash, number, queued FROM finality_queue ORDER BY id LIMIT ?"
	if s.db.Dialect == sqldb.Postgres {
		query += " FOR UPDATE SKIP LOCKED"
	}
	err = s.write(ctx, "take sold blocks", func(ctx context.Context, tx *sql.Tx) error {
		taken = 0
		rows, err := tx.QueryContext(ctx, s.db.Rebind(query), most)
		list, err := sqldb.All(rows, err, func(row sqldb.Scanner) (q queued, err error) {
			return q, row.Scan(&q.id, &q.chain, &q.hash, &q.number, &q.at)
		})
		if err != nil {
			return err
		}
		// In one order in all processes, so that none waits for one that waits for it.
		slices.SortFunc(list, func(a, b queued) int {
			return strings.Compare(a.chain+string(a.hash), b.chain+string(b.hash))
		})
		for _, q := range list {
			if _, err := s.db.Exec(ctx, tx, takeSQL, q.chain, q.hash, q.number, q.at, q.at, q.at); err != nil {
				return err
			}
			if _, err := s.db.Exec(ctx, tx, "DELETE FROM finality_queue WHERE id = ?", q.id); err != nil {
				return err
			}
			taken++
		}
		return nil
	})
	return taken, err
}

const selectBundle = "SELECT chain, block_hash, number, state, queued, tried, tries, period, anchor_slot, content, " +
	"made FROM finality_bundles"

func scanBundle(row sqldb.Scanner) (b beaconchain.Bundle, err error) {
	var hash []byte
	var queued, tried, made int64
	err = row.Scan(&b.Chain, &hash, &b.Number, &b.State, &queued, &tried, &b.Tries,
		&b.Period, &b.Slot, &b.Content, &made)
	if err != nil {
		return b, err
	}
	copy(b.Hash[:], hash)
	b.Queued, b.Tried, b.Made = sqldb.Moment(queued), momentOrZero(tried), momentOrZero(made)
	return b, nil
}

// momentOrZero reads a moment of the tables that may be missing.
func momentOrZero(milliseconds int64) time.Time {
	if milliseconds == 0 {
		return time.Time{}
	}
	return sqldb.Moment(milliseconds)
}

// milliseconds returns a moment as the tables have it; 0 for the zero one.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Bundle implements beaconchain.Store. It reads the queue first: what TakeSold takes from there meanwhile is found
// among the bundles.
func (s *Store) Bundle(ctx context.Context, chain string, block finality.Root) (beaconchain.Bundle, error) {
	var queued int64
	again := beaconchain.Bundle{
		SoldBlock: beaconchain.SoldBlock{Chain: chain, Hash: block}, State: beaconchain.BundlePending,
	}
	const query = "SELECT number, queued FROM finality_queue WHERE chain = ? AND block_hash = ? ORDER BY id LIMIT 1"
	err := s.row(ctx, query, chain, block[:]).Scan(&again.Number, &queued)
	isQueued := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return again, fmt.Errorf("read the queue of bundles: %w", err)
	}
	again.Queued = sqldb.Moment(queued)
	b, err := scanBundle(s.row(ctx, selectBundle+" WHERE chain = ? AND block_hash = ?", chain, block[:]))
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return b, fmt.Errorf("read a bundle: %w", err)
	case isQueued && b.State != beaconchain.BundlePending && b.State != beaconchain.BundleMade:
		return again, nil
	case err != nil:
		return b, beaconchain.ErrNotFound
	}
	return b, nil
}

// DueBundles implements beaconchain.Store.
func (s *Store) DueBundles(
	ctx context.Context, chain string, can beaconchain.Makeable, next time.Time, most int,
) (due []beaconchain.Bundle, err error) {
	query := selectBundle + ` WHERE state = 'pending' AND chain = ? AND try_at <= ? AND (number <= ? OR queued < ?)
		ORDER BY try_at LIMIT ?`
	if s.db.Dialect == sqldb.Postgres {
		query += " FOR UPDATE SKIP LOCKED"
	}
	err = s.write(ctx, "take bundles to make", func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, s.db.Rebind(query),
			chain, s.now().UnixMilli(), int64(can.UpTo), can.QueuedBefore.UnixMilli(), most)
		if due, err = sqldb.All(rows, err, scanBundle); err != nil {
			return err
		}
		for _, b := range due {
			_, err := s.db.Exec(ctx, tx, "UPDATE finality_bundles SET try_at = ? WHERE chain = ? AND block_hash = ?",
				next.UnixMilli(), chain, b.Hash[:])
			if err != nil {
				return err
			}
		}
		return nil
	})
	return due, err
}

// KeepBundle implements beaconchain.Store.
func (s *Store) KeepBundle(ctx context.Context, b beaconchain.Bundle) error {
	kept, err := s.exec(ctx, "keep a bundle", `UPDATE finality_bundles SET
		period = CASE state WHEN 'made' THEN period ELSE ? END,
		anchor_slot = CASE state WHEN 'made' THEN anchor_slot ELSE ? END,
		content = CASE state WHEN 'made' THEN content ELSE ? END,
		made = CASE state WHEN 'made' THEN made ELSE ? END, state = 'made'
		WHERE chain = ? AND block_hash = ? AND state <> 'expired'`,
		int64(b.Period), int64(b.Slot), b.Content, s.now().UnixMilli(), b.Chain, b.Hash[:])
	if err == nil && !kept {
		err = beaconchain.ErrNotFound
	}
	return err
}

// PutOff implements beaconchain.Store.
func (s *Store) PutOff(ctx context.Context, b beaconchain.Bundle, next time.Time) error {
	_, err := s.exec(ctx, "put a bundle off", `UPDATE finality_bundles SET state = ?, tried = ?, tries = ?, try_at = ?
		WHERE chain = ? AND block_hash = ? AND state = 'pending'`,
		string(b.State), milliseconds(b.Tried), b.Tries, next.UnixMilli(), b.Chain, b.Hash[:])
	return err
}

const countBundlesSQL = `SELECT state, count(*) FROM finality_bundles WHERE chain = ? GROUP BY state
	UNION ALL SELECT 'pending', count(*) FROM finality_queue WHERE chain = ?`

// BundleCounts implements beaconchain.Store.
func (s *Store) BundleCounts(ctx context.Context, chain string) (beaconchain.BundleCounts, error) {
	counts := beaconchain.BundleCounts{States: map[beaconchain.BundleState]int{}}
	type count struct {
		state string
		n     int
	}
	scan := func(row sqldb.Scanner) (c count, err error) { return c, row.Scan(&c.state, &c.n) }
	list, err := sqldb.List(ctx, s.db, "count bundles", scan, countBundlesSQL, chain, chain)
	if err != nil {
		return counts, err
	}
	for _, c := range list {
		counts.States[beaconchain.BundleState(c.state)] += c.n
	}
	var oldest int64
	if err := s.row(ctx, `SELECT COALESCE(min(queued), 0) FROM (
		SELECT queued FROM finality_bundles WHERE chain = ? AND state = 'pending'
		UNION ALL SELECT queued FROM finality_queue WHERE chain = ?) AS waiting`,
		chain, chain).Scan(&oldest); err != nil {
		return counts, fmt.Errorf("read the oldest pending bundle: %w", err)
	}
	counts.Oldest = momentOrZero(oldest)
	return counts, nil
}

// KeepStep implements beaconchain.Store.
func (s *Store) KeepStep(ctx context.Context, k beaconchain.Step) error {
	_, err := s.exec(ctx, "keep a step", `INSERT INTO finality_steps AS k (chain, period, signers, final, step, written)
		VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (chain, period) DO UPDATE SET
		 step = CASE WHEN excluded.signers > k.signers THEN excluded.step ELSE k.step END,
		 signers = CASE WHEN excluded.signers > k.signers THEN excluded.signers ELSE k.signers END,
		 final = CASE WHEN excluded.final > k.final THEN excluded.final ELSE k.final END`,
		k.Chain, int64(k.Period), k.Signers, sqldb.Flag(k.Final), k.Step, s.now().UnixMilli())
	return err
}

// Steps implements beaconchain.Store.
func (s *Store) Steps(ctx context.Context, chain string, first, last uint64) ([]beaconchain.Step, error) {
	scan := func(row sqldb.Scanner) (beaconchain.Step, error) {
		k := beaconchain.Step{Chain: chain}
		var final int
		err := row.Scan(&k.Period, &k.Signers, &final, &k.Step)
		k.Final = final == 1
		return k, err
	}
	steps, err := sqldb.List(ctx, s.db, "read steps", scan, `SELECT period, signers, final, step FROM finality_steps
		WHERE chain = ? AND period BETWEEN ? AND ? ORDER BY period`, chain, int64(first), int64(last))
	if err != nil {
		return nil, err
	}
	for i := range steps {
		if steps[i].Period != first+uint64(i) {
			return steps[:i], nil
		}
	}
	return steps, nil
}

// KeepCheckpoint implements beaconchain.Store.
func (s *Store) KeepCheckpoint(ctx context.Context, c beaconchain.Checkpoint) error {
	_, err := s.exec(ctx, "keep a checkpoint", `INSERT INTO finality_checkpoints AS k
		(chain, root, slot, period, own, checkpoint, written) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (chain, root) DO UPDATE SET
		 own = CASE WHEN excluded.own > k.own THEN excluded.own ELSE k.own END`,
		c.Chain, c.Root[:], int64(c.Slot), int64(c.Period), sqldb.Flag(c.Own), c.Checkpoint, s.now().UnixMilli())
	return err
}

func scanCheckpoint(row sqldb.Scanner) (c beaconchain.Checkpoint, err error) {
	var root []byte
	var own int
	err = row.Scan(&c.Chain, &root, &c.Slot, &c.Period, &own, &c.Checkpoint)
	copy(c.Root[:], root)
	c.Own = own == 1
	return c, err
}

const checkpointSQL = "SELECT chain, root, slot, period, own, checkpoint FROM finality_checkpoints"

// Checkpoint implements beaconchain.Store.
func (s *Store) Checkpoint(ctx context.Context, chain string, root finality.Root) (beaconchain.Checkpoint, error) {
	c, err := scanCheckpoint(s.row(ctx, checkpointSQL+" WHERE chain = ? AND root = ?", chain, root[:]))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, beaconchain.ErrNotFound
	case err != nil:
		return c, fmt.Errorf("read a checkpoint: %w", err)
	}
	return c, nil
}

// OwnCheckpoints implements beaconchain.Store.
func (s *Store) OwnCheckpoints(ctx context.Context, chain string, from uint64) ([]beaconchain.Checkpoint, error) {
	return sqldb.List(ctx, s.db, "list checkpoints", scanCheckpoint,
		checkpointSQL+" WHERE chain = ? AND own = 1 AND slot >= ? ORDER BY slot", chain, int64(from))
}

const (
	// forgetBundlesSQL looks at sold a second time, because another process may write it meanwhile.
	forgetBundlesSQL = `UPDATE finality_bundles SET state = 'expired', content = NULL
		WHERE sold < ? AND (chain, block_hash) IN
		(SELECT chain, block_hash FROM finality_bundles WHERE state <> 'expired' AND sold < ? ORDER BY sold LIMIT 1000)`
	forgetBlocksSQL = "DELETE FROM finality_queue WHERE id IN " +
		"(SELECT id FROM finality_queue WHERE queued < ? LIMIT 1000)"
	// stepAge is how much longer steps and checkpoints are kept: the proof of a block that is sold later may begin at
	// an older checkpoint.
	stepAge = 32 * 24 * time.Hour
)

// Prune forgets proofs of blocks that were last sold before a moment, and steps and checkpoints that are older by
// stepAge, in transactions between which payments are written.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	sold, written := before.UnixMilli(), before.Add(-stepAge).UnixMilli()
	for _, step := range []struct {
		query string
		args  []any
	}{
		{forgetBundlesSQL, []any{sold, sold}},
		{forgetBlocksSQL, []any{sold}},
		{"DELETE FROM finality_steps WHERE written < ?", []any{written}},
		{"DELETE FROM finality_checkpoints WHERE written < ?", []any{written}},
	} {
		for more := true; more; {
			var err error
			if more, err = s.exec(ctx, "prune the proofs of finality", step.query, step.args...); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("prune the proofs of finality: %w", err)
			}
		}
	}
	return nil
}

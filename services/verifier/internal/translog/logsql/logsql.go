package logsql

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

var _ translog.Store = (*Store)(nil)

// Options are what a Store needs.
type Options struct {
	// DB is the database of the payments, with its tables.
	DB *sqldb.DB
	// Now is the clock.
	Now func() time.Time
	// Placing may be nil. It is called in a transaction of Sequence that gives places, before
	// that is committed.
	Placing func()
}

// Store implements translog.Store on SQL.
type Store struct {
	db      *sqldb.DB
	now     func() time.Time
	placing func()
}

// New returns a store. The database closes with the ledger of payments that opened it.
func New(o Options) *Store { return &Store{db: o.DB, now: o.Now, placing: o.Placing} }

// Name returns origin and verifier key of a generation.
type Name func(log int64) (origin, vkey string, err error)

// Begin opens generation 1 where there is none, lists the keys as ListKeys does, and queues
// all stored answers, unless that was done for the generation. translog.ErrOtherLog: the log
// that is open has another name. receiptlog.ErrKeyState: as of ListKeys.
func (s *Store) Begin(ctx context.Context, name Name, keys []receipt.Key) (listed []receipt.Key, err error) {
	heads, err := s.Heads(ctx)
	if err != nil {
		return nil, err
	}
	if len(heads) == 0 {
		if err = s.openLog(ctx, 1, name); err == nil {
			heads, err = s.Heads(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	newest := heads[0]
	origin, vkey, err := name(newest.Log)
	if err != nil {
		return nil, err
	}
	if origin != newest.Origin || vkey != newest.VKey {
		return nil, fmt.Errorf("%w: it is %s, and by the settings %s", translog.ErrOtherLog, newest.VKey, vkey)
	}
	if listed, err = s.ListKeys(ctx, keys); err != nil {
		return nil, err
	}
	return listed, s.queueStored(ctx, newest.Log)
}

func (s *Store) openLog(ctx context.Context, log int64, name Name) error {
	origin, vkey, err := name(log)
	if err != nil {
		return err
	}
	_, err = s.write(ctx, s.db.Tx, "open a log", openLogSQL, log, origin, vkey, emptyRoot[:], s.now().UnixMilli())
	return err
}

// transaction is Tx or TxRelaxed of a database.
type transaction func(ctx context.Context, do func(tx *sql.Tx) error) error

const writeTimeout = 10 * time.Second

// write carries out one statement in a transaction, and reports whether it changed a row.
func (s *Store) write(ctx context.Context, in transaction, what, query string, args ...any) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err = in(ctx, func(tx *sql.Tx) (err error) {
		changed, err = s.db.Exec(ctx, tx, query, args...)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	return changed, nil
}

// emptyRoot is the root of a tree without entries (RFC 6962, section 2.1).
var emptyRoot = sha256.Sum256(nil)

const openLogSQL = `INSERT INTO log_head (log, origin, vkey, size, root, opened) VALUES (?, ?, ?, 0, ?, ?)
	ON CONFLICT (log) DO NOTHING`

// SellWithoutLog records that a process sells without the log that the database has: the
// next one that has it queues all stored answers again.
func (s *Store) SellWithoutLog(ctx context.Context) error {
	_, err := s.write(ctx, s.db.Tx, "sell without the log", "UPDATE log_head SET queued = 0 WHERE queued = 1")
	return err
}

// entry is an entry that gets, or waits for, a place in the log. source is the number of the
// payment that it was queued with, or one of the constants below.
type entry struct {
	leaf, bytes []byte
	source      int64
}

const (
	fromKey  = 0  // the state of a listed key
	fromCopy = -1 // came back by Extend
)

func newEntry(data []byte) entry {
	leaf := receiptlog.Leaf(data)
	return entry{leaf: leaf[:], bytes: data, source: fromKey}
}

const (
	enqueueSQL = "INSERT INTO log_queue (leaf, entry, queued, source) VALUES (?, ?, ?, ?)"
	indexSQL   = "SELECT idx FROM log_entries WHERE log = ? AND leaf = ?"
	knownSQL   = "SELECT leaf FROM log_entries WHERE log = $1 AND leaf = ANY($2)" // on Postgres
	// sequenceSQL reads no more of an entry than shows that it is too long.
	sequenceSQL = "SELECT id, substr(entry, 1, ?), source FROM log_queue ORDER BY id LIMIT ?"
	// setAsideSQL takes no number from the queue, which SQLite numbers from 1 again once it is empty.
	setAsideSQL = `INSERT INTO log_set_aside (id, entry, queued, source, why)
		SELECT (SELECT COALESCE(max(id), 0) + 1 FROM log_set_aside), entry, queued, source, ?
		FROM log_queue WHERE id = ?`
	queuedSQL = "SELECT EXISTS (SELECT 1 FROM log_queue WHERE leaf = ?)"
	storedSQL = "SELECT payment, answer FROM answers WHERE payment > ? AND claimed < ? ORDER BY payment LIMIT ?"
	// The condition of Store.in follows these.
	dequeueSQL = "DELETE FROM log_queue WHERE id "
	hashesSQL  = "SELECT id, hash FROM log_hashes WHERE log = ? AND id "
)

// queueStored queues the entries of all stored answers, unless that was done, in portions
// between which payments are written.
func (s *Store) queueStored(ctx context.Context, log int64) error {
	var queued int
	if err := s.row(ctx, "SELECT queued FROM log_head WHERE log = ?", log).Scan(&queued); err != nil || queued == 1 {
		return err
	}
	for after := int64(0); ; {
		stored, last, err := s.StoredEntries(ctx, after, s.now().Add(time.Hour), 200)
		if err != nil {
			return err
		}
		if last == after {
			break
		}
		after = last
		if err := s.QueueStored(ctx, stored); err != nil {
			return err
		}
	}
	_, err := s.write(ctx, s.db.Tx, "finish queueing what was sold",
		"UPDATE log_head SET queued = 1 WHERE log = ?", log)
	return err
}

// QueueStored implements translog.Store.
func (s *Store) QueueStored(ctx context.Context, entries []translog.StoredEntry) error {
	if len(entries) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := s.db.TxRelaxed(ctx, func(tx *sql.Tx) error {
		for _, sold := range entries {
			e := newEntry(sold.Data)
			_, err := s.db.Exec(ctx, tx, enqueueSQL, e.leaf, e.bytes, s.now().UnixMilli(), sold.Payment)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("queue what was sold: %w", err)
	}
	return nil
}

// StoredEntries implements translog.Store. An answer without a signed receipt has no entry; that of
// a batch has several.
func (s *Store) StoredEntries(
	ctx context.Context, after int64, before time.Time, most int,
) (entries []translog.StoredEntry, last int64, err error) {
	last = after
	// No answer is kept while the next is read: each may have megabytes.
	scan := func(row sqldb.Scanner) (none struct{}, err error) {
		var answer []byte
		err = row.Scan(&last, &answer)
		sold, _ := receiptlog.EntriesOfAnswer(answer)
		for _, e := range sold {
			entries = append(entries, translog.StoredEntry{Payment: last, Data: e.Bytes()})
		}
		return none, err
	}
	if _, err = sqldb.List(ctx, s.db, "list answers", scan, storedSQL, after, before.UnixMilli(), most); err != nil {
		return nil, after, err
	}
	return entries, last, nil
}

const headSQL = "SELECT log, origin, vkey, size, root, frozen, opened, closed, final FROM log_head"

func scanHead(row sqldb.Scanner) (h translog.Head, err error) {
	var root []byte
	var opened, closed int64
	if err := row.Scan(&h.Log, &h.Origin, &h.VKey, &h.Size, &root, &h.Frozen, &opened, &closed, &h.Final); err != nil {
		return translog.Head{}, err
	}
	copy(h.Root[:], root)
	h.Opened = sqldb.Moment(opened)
	if closed != 0 {
		h.Closed = sqldb.Moment(closed)
	}
	return h, nil
}

// Heads implements translog.Store.
func (s *Store) Heads(ctx context.Context) ([]translog.Head, error) {
	return sqldb.List(ctx, s.db, "read the heads of the log", scanHead, headSQL+" ORDER BY log DESC")
}

// logTx runs do in a transaction that is on disk when it returns, with the open log's head
// locked, or returns translog.ErrNotFound where no log is open. It is no part of a batch of
// payments, which would wait for it. On SQLite all writers wait for it, so do must be short.
func (s *Store) logTx(ctx context.Context, what string, do func(tx *sql.Tx, head translog.Head) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		query := headSQL + " WHERE closed = 0"
		if s.db.Dialect == sqldb.Postgres {
			if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
				return err
			}
			query += " FOR UPDATE"
		}
		head, err := scanHead(tx.QueryRowContext(ctx, query))
		if errors.Is(err, sql.ErrNoRows) { // the query does not see a generation that began while it waited
			head, err = scanHead(tx.QueryRowContext(ctx, query))
		}
		if errors.Is(err, sql.ErrNoRows) {
			return translog.ErrNotFound
		}
		if err != nil {
			return err
		}
		return do(tx, head)
	})
	if err == nil || errors.Is(err, translog.ErrNotFound) || errors.Is(err, translog.ErrLost) ||
		errors.Is(err, translog.ErrFrozen) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Portion implements translog.Store.
func (s *Store) Portion() int {
	if s.db.Dialect == sqldb.Postgres {
		return 1000
	}
	return 100
}

// Sequence implements translog.Store.
func (s *Store) Sequence(ctx context.Context, most int) (head translog.Head, taken int, err error) {
	err = s.logTx(ctx, "sequence the log", func(tx *sql.Tx, h translog.Head) error {
		head, taken = h, 0
		if h.Frozen != "" {
			return translog.ErrFrozen
		}
		rows, err := tx.QueryContext(ctx, s.db.Rebind(sequenceSQL), receiptlog.MaxEntry+1, most)
		var ids []int64
		queued, err := sqldb.All(rows, err, func(row sqldb.Scanner) (entry, error) {
			var id, source int64
			var data []byte
			err := row.Scan(&id, &data, &source)
			ids = append(ids, id)
			e := newEntry(data)
			e.source = source
			return e, err
		})
		if err != nil {
			return err
		}
		entries, err := s.setAside(ctx, tx, h, ids, queued)
		if err != nil {
			return err
		}
		if taken = len(queued); taken > 0 {
			// By their numbers: on Postgres one with a smaller number may be committed later.
			where, args := s.in(1, ids)
			if _, err := tx.ExecContext(ctx, dequeueSQL+where, args...); err != nil {
				return err
			}
		}
		if h.Size == 0 { // every generation begins with the last state of each key
			states, err := s.keyStates(ctx, tx)
			if err != nil {
				return err
			}
			entries = slices.Concat(states.begin(), entries)
		}
		if len(entries) == 0 {
			return nil
		}
		head, err = s.place(ctx, tx, h, entries)
		if err == nil && s.placing != nil {
			s.placing()
		}
		return err
	})
	return head, taken, err
}

// setAside returns those of the queued entries that may have a place, and keeps the others
// for the operator: once signed, what readers refuse ends the generation.
func (s *Store) setAside(
	ctx context.Context, tx *sql.Tx, h translog.Head, ids []int64, queued []entry,
) (entries []entry, err error) {
	var states keyStates // read where they are needed
	for i, e := range queued {
		parsed, refused := receiptlog.ParseEntry(e.bytes)
		if refused == nil && parsed.IsKey() {
			if states == nil {
				if states, err = s.keyStates(ctx, tx); err != nil {
					return nil, err
				}
			}
			refused = states.add(parsed, h)
		}
		if refused == nil {
			entries = append(entries, e)
		} else if _, err := s.db.Exec(ctx, tx, setAsideSQL, refused.Error(), ids[i]); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// SetAside returns at most so many of what was set aside, the oldest first.
func (s *Store) SetAside(ctx context.Context, most int) ([]translog.SetAside, error) {
	scan := func(row sqldb.Scanner) (a translog.SetAside, err error) {
		var queued int64
		err = row.Scan(&a.Number, &a.Begin, &a.Bytes, &queued, &a.Why)
		a.Queued = sqldb.Moment(queued)
		return a, err
	}
	return sqldb.List(ctx, s.db, "read what was set aside", scan,
		"SELECT id, substr(entry, 1, ?), length(entry), queued, why FROM log_set_aside ORDER BY id LIMIT ?",
		receiptlog.MaxEntry, most)
}

// Discard deletes something that was set aside. translog.ErrNotFound: it is not there.
func (s *Store) Discard(ctx context.Context, number int64) error {
	found, err := s.write(ctx, s.db.Tx, "discard what was set aside", "DELETE FROM log_set_aside WHERE id = ?", number)
	if err == nil && !found {
		err = translog.ErrNotFound
	}
	return err
}

// Extend implements translog.Store.
func (s *Store) Extend(ctx context.Context, log, first int64, entries [][]byte) (head translog.Head, err error) {
	copied := make([]entry, len(entries))
	for i, data := range entries {
		copied[i] = newEntry(data)
		copied[i].source = fromCopy
	}
	err = s.logTx(ctx, "extend the log", func(tx *sql.Tx, h translog.Head) (err error) {
		if h.Log != log || h.Size != first {
			return translog.ErrLost
		}
		head, err = s.place(ctx, tx, h, copied)
		return err
	})
	return head, err
}

// place appends entries to the log, except those that it has already, and returns the head after that.
func (s *Store) place(ctx context.Context, tx *sql.Tx, h translog.Head, entries []entry) (translog.Head, error) {
	fresh, err := s.unknown(ctx, tx, h.Log, entries)
	if err != nil || len(fresh) == 0 {
		return h, err
	}
	stored := func(ids []int64) ([]tlog.Hash, error) { return s.hashes(ctx, tx, h.Log, ids) }
	reader := &hashes{made: map[int64]tlog.Hash{}, stored: stored}
	// One query reads all stored hashes that the new ones are made with.
	if root, err := tlog.TreeHash(h.Size, reader); err != nil || root != h.Root {
		return h, errors.Join(fmt.Errorf("the root of %d entries is %s and not the head's", h.Size, root), err)
	}
	first := h.Size
	var at []int64
	var made [][]byte
	for _, e := range fresh {
		added, err := tlog.StoredHashes(h.Size, e.bytes, reader)
		if err != nil {
			return h, err
		}
		id := tlog.StoredHashIndex(0, h.Size)
		for i := range added {
			reader.made[id+int64(i)] = added[i]
			at, made = append(at, id+int64(i)), append(made, added[i][:])
		}
		h.Size++
	}
	if h.Root, err = tlog.TreeHash(h.Size, reader); err != nil {
		return h, err
	}
	if err := s.insert(ctx, tx, h.Log, first, fresh, at, made); err != nil {
		return h, err
	}
	_, err = s.db.Exec(ctx, tx, "UPDATE log_head SET size = ?, root = ? WHERE log = ?", h.Size, h.Root[:], h.Log)
	return h, err
}

// unknown returns the entries that the log does not have, each once.
func (s *Store) unknown(ctx context.Context, tx *sql.Tx, log int64, entries []entry) (fresh []entry, err error) {
	leaves := make([][]byte, len(entries))
	for i, e := range entries {
		leaves[i] = e.leaf
	}
	known, err := s.known(ctx, tx, log, leaves)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !known[string(e.leaf)] {
			known[string(e.leaf)] = true
			fresh = append(fresh, e)
		}
	}
	return fresh, nil
}

// known returns which of the leaves the log has.
func (s *Store) known(ctx context.Context, from queryer, log int64, leaves [][]byte) (map[string]bool, error) {
	known := map[string]bool{}
	if s.db.Dialect == sqldb.Postgres {
		rows, err := from.QueryContext(ctx, knownSQL, log, leaves)
		found, err := sqldb.All(rows, err, scanBytes)
		for _, leaf := range found {
			known[string(leaf)] = true
		}
		return known, err
	}
	for _, leaf := range leaves {
		var at int64
		switch err := from.QueryRowContext(ctx, indexSQL, log, leaf).Scan(&at); {
		case err == nil:
			known[string(leaf)] = true
		case !errors.Is(err, sql.ErrNoRows):
			return nil, err
		}
	}
	return known, nil
}

// Missing implements translog.Store.
func (s *Store) Missing(ctx context.Context, log int64, leaves []tlog.Hash) (missing []tlog.Hash, err error) {
	asked := make([][]byte, len(leaves))
	for i := range leaves {
		asked[i] = leaves[i][:]
	}
	known, err := s.known(ctx, s.db.Reader, log, asked)
	if err != nil {
		return nil, fmt.Errorf("find entries of the log: %w", err)
	}
	for _, leaf := range leaves {
		if !known[string(leaf[:])] {
			missing = append(missing, leaf)
		}
	}
	return missing, nil
}

// insert writes entries, the first of them at the index first, and hashes. On Postgres it writes all entries
// in one statement and all hashes in another, because each statement is a round trip.
func (s *Store) insert(
	ctx context.Context, tx *sql.Tx, log, first int64, entries []entry, ids []int64, hashes [][]byte,
) error {
	if s.db.Dialect == sqldb.Postgres {
		var leaves, data [][]byte
		var sources []int64
		for _, e := range entries {
			leaves, data, sources = append(leaves, e.leaf), append(data, e.bytes), append(sources, e.source)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO log_entries (log, idx, leaf, entry, source, placed)
			SELECT $1, $2 + n - 1, leaf, entry, source, $6
			FROM unnest($3::bytea[], $4::bytea[], $5::bigint[]) WITH ORDINALITY AS new (leaf, entry, source, n)`,
			log, first, leaves, data, sources, s.now().UnixMilli()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO log_hashes (log, id, hash)
			SELECT $1, id, hash FROM unnest($2::bigint[], $3::bytea[]) AS new (id, hash)`, log, ids, hashes)
		return err
	}
	for i, e := range entries {
		_, err := tx.ExecContext(ctx,
			"INSERT INTO log_entries (log, idx, leaf, entry, source, placed) VALUES (?, ?, ?, ?, ?, ?)",
			log, first+int64(i), e.leaf, e.bytes, e.source, s.now().UnixMilli())
		if err != nil {
			return err
		}
	}
	for i, id := range ids {
		_, err := tx.ExecContext(ctx, "INSERT INTO log_hashes (log, id, hash) VALUES (?, ?, ?)", log, id, hashes[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// hashes implements tlog.HashReader with stored hashes and those that were just made.
type hashes struct {
	made   map[int64]tlog.Hash
	stored func(ids []int64) ([]tlog.Hash, error)
}

// ReadHashes implements tlog.HashReader.
func (r *hashes) ReadHashes(ids []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(ids))
	var missing []int64
	for i, id := range ids {
		if hash, ok := r.made[id]; ok {
			out[i] = hash
		} else {
			missing = append(missing, id)
		}
	}
	found, err := r.stored(missing)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if _, ok := r.made[id]; !ok {
			out[i], found = found[0], found[1:]
			r.made[id] = out[i]
		}
	}
	return out, nil
}

// in returns the condition that a column has one of these numbers, and its arguments: on Postgres one,
// for the placeholder with the number place, and on SQLite none. On Postgres the condition is the same
// text for all numbers: each text would be prepared by itself, and push those of purchases out of the
// connection's cache.
func (s *Store) in(place int, ids []int64) (condition string, args []any) {
	if s.db.Dialect == sqldb.Postgres {
		return fmt.Sprintf("= ANY($%d)", place), []any{ids}
	}
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = strconv.FormatInt(id, 10)
	}
	return "IN (" + strings.Join(text, ",") + ")", nil
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func scanBytes(row sqldb.Scanner) (data []byte, err error) {
	err = row.Scan(&data)
	return data, err
}

// Hashes implements translog.Store.
func (s *Store) Hashes(ctx context.Context, log int64, ids []int64) ([]tlog.Hash, error) {
	return s.hashes(ctx, s.db.Reader, log, ids)
}

func (s *Store) hashes(ctx context.Context, from queryer, log int64, ids []int64) ([]tlog.Hash, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	by := map[int64][]byte{}
	where, args := s.in(2, ids)
	rows, err := from.QueryContext(ctx, s.db.Rebind(hashesSQL)+where, append([]any{log}, args...)...)
	_, err = sqldb.All(rows, err, func(row sqldb.Scanner) (none struct{}, err error) {
		var id int64
		var hash []byte
		err = row.Scan(&id, &hash)
		by[id] = hash
		return none, err
	})
	if err != nil {
		return nil, fmt.Errorf("read hashes of the log: %w", err)
	}
	out := make([]tlog.Hash, len(ids))
	for i, id := range ids {
		if len(by[id]) != len(out[i]) {
			return nil, fmt.Errorf("hash %d of the log: %w", id, translog.ErrNotFound)
		}
		copy(out[i][:], by[id])
	}
	return out, nil
}

// Entries implements translog.Store.
func (s *Store) Entries(ctx context.Context, log, from int64, most int) ([][]byte, error) {
	return sqldb.List(ctx, s.db, "read entries of the log", scanBytes, entriesSQL, log, from, from+int64(most))
}

const (
	entriesSQL = "SELECT entry FROM log_entries WHERE log = ? AND idx >= ? AND idx < ? ORDER BY idx"
	// loggedSQL also returns whether an entry was queued with a payment whose settlement began.
	loggedSQL = `SELECT entry, source, placed,
			COALESCE((SELECT state <> 'working' FROM payments WHERE id = log_entries.source), FALSE)
		FROM log_entries WHERE log = ? AND idx >= ? AND idx < ? ORDER BY idx`
)

// Logged implements translog.Store.
func (s *Store) Logged(ctx context.Context, log, from int64, most int) ([]translog.LoggedEntry, error) {
	scan := func(row sqldb.Scanner) (e translog.LoggedEntry, err error) {
		var source, placed int64
		var sold bool
		err = row.Scan(&e.Data, &source, &placed, &sold)
		e.Placed = sqldb.Moment(placed)
		switch {
		case source == fromKey:
			e.Source = translog.FromKey
		case source == fromCopy:
			e.Source = translog.FromCopy
		case sold:
			e.Source = translog.FromSale
		}
		return e, err
	}
	return sqldb.List(ctx, s.db, "read entries of the log", scan, loggedSQL, log, from, from+int64(most))
}

// Index implements translog.Store.
func (s *Store) Index(ctx context.Context, log int64, leaf tlog.Hash) (at int64, err error) {
	switch err := s.row(ctx, indexSQL, log, leaf[:]).Scan(&at); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, translog.ErrNotFound
	case err != nil:
		return 0, fmt.Errorf("find an entry of the log: %w", err)
	}
	return at, nil
}

// IsQueued implements translog.Store.
func (s *Store) IsQueued(ctx context.Context, leaf tlog.Hash) (queued bool, err error) {
	if err := s.row(ctx, queuedSQL, leaf[:]).Scan(&queued); err != nil {
		return false, fmt.Errorf("find a queued entry: %w", err)
	}
	return queued, nil
}

// Queue implements translog.Store.
func (s *Store) Queue(ctx context.Context) (q translog.Queue, err error) {
	var oldest int64
	if err := s.row(ctx, `SELECT count(*), COALESCE((SELECT queued FROM log_queue ORDER BY id LIMIT 1), 0),
		(SELECT count(*) FROM log_set_aside) FROM log_queue`).Scan(&q.Entries, &oldest, &q.SetAside); err != nil {
		return q, fmt.Errorf("read the queue of the log: %w", err)
	}
	if q.Entries > 0 {
		q.Oldest = sqldb.Moment(oldest)
	}
	return q, nil
}

// Freeze implements translog.Store.
func (s *Store) Freeze(ctx context.Context, log int64, why string) error {
	_, err := s.write(ctx, s.db.Tx, "freeze the log",
		"UPDATE log_head SET frozen = ? WHERE log = ? AND closed = 0 AND frozen = ''", why, log)
	return err
}

// Resume implements translog.Store.
func (s *Store) Resume(ctx context.Context, log, size int64, why string) error {
	resumed, err := s.write(ctx, s.db.Tx, "resume the log",
		"UPDATE log_head SET frozen = '' WHERE log = ? AND closed = 0 AND frozen = ? AND size = ?", log, why, size)
	if err == nil && !resumed {
		err = translog.ErrLost
	}
	return err
}

// EndLog implements translog.Store.
func (s *Store) EndLog(ctx context.Context, log int64, final []byte, next translog.Head) error {
	err := s.logTx(ctx, "end the log", func(tx *sql.Tx, h translog.Head) error {
		if h.Log != log {
			return translog.ErrLost
		}
		var served []byte
		err := tx.QueryRowContext(ctx, s.db.Rebind(publishedSQL), log).Scan(new(int64), &served, new(int64))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if !bytes.Equal(served, final) {
			return translog.ErrLost
		}
		now := s.now().UnixMilli()
		_, err = s.db.Exec(ctx, tx, "UPDATE log_head SET closed = ?, final = ? WHERE log = ?", now, final, log)
		if err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, tx, openLogSQL, next.Log, next.Origin, next.VKey, emptyRoot[:], now)
		return err
	})
	if err != nil {
		return err
	}
	return s.queueStored(ctx, next.Log)
}

// Publish implements translog.Store.
func (s *Store) Publish(ctx context.Context, log, size int64, note func(replaced []byte) []byte) error {
	return s.logTx(ctx, "publish a checkpoint", func(tx *sql.Tx, h translog.Head) error {
		if h.Log != log || size > h.Size {
			return translog.ErrLost
		}
		var replaced []byte
		err := tx.QueryRowContext(ctx, s.db.Rebind("SELECT note FROM log_checkpoints WHERE log = ? AND size = ?"),
			log, size).Scan(&replaced)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if _, err := s.db.Exec(ctx, tx, `INSERT INTO log_checkpoints (log, size, note, published) VALUES (?, ?, ?, ?)
			ON CONFLICT (log, size) DO UPDATE SET note = excluded.note, published = excluded.published`,
			log, size, note(replaced), s.now().UnixMilli()); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, tx, `DELETE FROM log_checkpoints WHERE log = ?
			AND size < (SELECT max(size) FROM log_checkpoints WHERE log = ?)`, log, log)
		return err
	})
}

const publishedSQL = "SELECT size, note, published FROM log_checkpoints WHERE log = ? ORDER BY size DESC LIMIT 1"

// Published implements translog.Store.
func (s *Store) Published(ctx context.Context, log int64) (p translog.PublishedCheckpoint, err error) {
	var at int64
	switch err := s.row(ctx, publishedSQL, log).Scan(&p.Size, &p.Note, &at); {
	case errors.Is(err, sql.ErrNoRows):
		return p, nil
	case err != nil:
		return p, fmt.Errorf("read the published checkpoint: %w", err)
	}
	p.At = sqldb.Moment(at)
	return p, nil
}

// SetWitness implements translog.Store.
func (s *Store) SetWitness(ctx context.Context, log int64, name string, size int64) error {
	_, err := s.write(ctx, s.db.TxRelaxed, "remember a witness",
		`INSERT INTO log_witnesses (log, name, size, seen) VALUES (?, ?, ?, ?)
			ON CONFLICT (log, name) DO UPDATE SET size = excluded.size, seen = excluded.seen`,
		log, name, size, s.now().UnixMilli())
	return err
}

// WitnessSize implements translog.Store.
func (s *Store) WitnessSize(ctx context.Context, log int64, name string) (size int64, err error) {
	err = s.row(ctx, "SELECT size FROM log_witnesses WHERE log = ? AND name = ?", log, name).Scan(&size)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read a witness's size: %w", err)
	}
	return size, nil
}

// row reads one row outside of a transaction.
func (s *Store) row(ctx context.Context, query string, args ...any) *sql.Row {
	return s.db.Reader.QueryRowContext(ctx, s.db.Rebind(query), args...)
}

package ledger

import (
	"bytes"
	"context"
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
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

var _ payment.LogStore = (*Ledger)(nil)

// LogOptions are what a ledger needs to queue what is sold for the log of receipts.
type LogOptions struct {
	// Name returns origin and verifier key of a generation.
	Name func(log int64) (origin, vkey string, err error)
	// Keys are those that are listed (ListKeys).
	Keys []receipt.Key
	// Placing may be nil. It is called in the transaction that gives places, before that is
	// committed.
	Placing func()
}

// startLog opens generation 1 where there is none, and queues what is not in the log.
func (l *Ledger) startLog(ctx context.Context, o LogOptions) error {
	l.placing = o.Placing
	heads, err := l.Heads(ctx)
	if err != nil {
		return err
	}
	if len(heads) == 0 {
		if err = l.openLog(ctx, 1, o); err == nil {
			heads, err = l.Heads(ctx)
		}
		if err != nil {
			return err
		}
	}
	newest := heads[0]
	origin, vkey, err := o.Name(newest.Log)
	if err != nil {
		return err
	}
	if origin != newest.Origin || vkey != newest.VKey {
		return fmt.Errorf("%w: it is %s, and by the settings %s", payment.ErrOtherLog, newest.VKey, vkey)
	}
	if _, err := l.ListKeys(ctx, o.Keys); err != nil {
		return err
	}
	return l.queueStored(ctx, newest.Log)
}

func (l *Ledger) openLog(ctx context.Context, log int64, o LogOptions) error {
	origin, vkey, err := o.Name(log)
	if err != nil {
		return err
	}
	empty, err := tlog.TreeHash(0, nil)
	if err != nil {
		return err
	}
	return l.write(ctx, "open a log", true, func(ctx context.Context, u *unit) error {
		_, err := u.exec(ctx, openLogSQL, log, origin, vkey, empty[:], l.now())
		return err
	})
}

const openLogSQL = "INSERT INTO log_head (log, origin, vkey, size, root, opened) VALUES (?, ?, ?, 0, ?, ?) ON CONFLICT (log) DO NOTHING"

// SellWithoutLog records that a process sells without the log that the ledger has: the
// next one that has it queues all stored answers again.
func (l *Ledger) SellWithoutLog(ctx context.Context) error {
	return l.write(ctx, "sell without the log", true, func(ctx context.Context, u *unit) error {
		_, err := u.exec(ctx, "UPDATE log_head SET queued = 0 WHERE queued = 1")
		return err
	})
}

// entry is an entry of the log as it is queued; bytes is nil where there is none. source
// is the number of the payment that it is queued with, or one of the constants below.
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

// entryOf returns the entry of an answer; none where the ledger has no log.
func (l *Ledger) entryOf(answer []byte) (entry, error) {
	if !l.logs {
		return entry{}, nil
	}
	e, err := receiptlog.EntryOfAnswer(answer)
	if err != nil {
		return entry{}, fmt.Errorf("entry of an answer: %w", err)
	}
	return newEntry(e.Bytes()), nil
}

const (
	enqueueSQL     = "INSERT INTO log_queue (leaf, entry, queued, source) VALUES (?, ?, ?, ?)"
	enqueueSaleSQL = "INSERT INTO log_queue (leaf, entry, queued, source) VALUES (?, ?, ?, COALESCE((SELECT id FROM payments WHERE" + byKey + "), 0))"
	indexSQL       = "SELECT idx FROM log_entries WHERE log = ? AND leaf = ?"
	knownSQL       = "SELECT leaf FROM log_entries WHERE log = $1 AND leaf = ANY($2)" // on Postgres
	// sequenceSQL reads no more of an entry than shows that it is too long.
	sequenceSQL = "SELECT id, substr(entry, 1, ?), source FROM log_queue ORDER BY id LIMIT ?"
	setAsideSQL = "INSERT INTO log_set_aside (id, entry, queued, source, why) SELECT id, entry, queued, source, ? FROM log_queue WHERE id = ?"
	queuedSQL   = "SELECT EXISTS (SELECT 1 FROM log_queue WHERE leaf = ?)"
	storedSQL   = "SELECT payment, answer FROM answers WHERE payment > ? AND claimed < ? ORDER BY payment LIMIT ?"
	// Of these the condition of Ledger.in follows.
	dequeueSQL = "DELETE FROM log_queue WHERE id "
	hashesSQL  = "SELECT id, hash FROM log_hashes WHERE log = ? AND id "
)

func (u *unit) enqueue(ctx context.Context, e entry) error {
	_, err := u.exec(ctx, enqueueSQL, e.leaf, e.bytes, u.now(), e.source)
	return err
}

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
	if e.bytes != nil {
		heads, err := l.Heads(ctx)
		if err == nil && len(heads) > 0 {
			err = l.queueUnlessKnown(ctx, heads[0].Log, e, key)
		}
		if err != nil {
			return payment.Answer{}, err
		}
	}
	return payment.Queued(answer), nil
}

// queueUnlessKnown queues an entry that has no place, with a payment.
func (l *Ledger) queueUnlessKnown(ctx context.Context, log int64, e entry, with payment.Key) error {
	_, err := l.Index(ctx, log, payment.Digest(e.leaf))
	if !errors.Is(err, payment.ErrNotFound) {
		return err
	}
	return l.write(ctx, "queue an entry of the log", true, func(ctx context.Context, u *unit) error {
		return u.enqueueSale(ctx, with, e)
	})
}

// queueStored queues the entries of all stored answers, unless that was done, in portions
// between which payments are written.
func (l *Ledger) queueStored(ctx context.Context, log int64) error {
	var queued int
	if err := l.row(ctx, "SELECT queued FROM log_head WHERE log = ?", log).Scan(&queued); err != nil || queued == 1 {
		return err
	}
	for after := int64(0); ; {
		stored, last, err := l.StoredEntries(ctx, after, l.now().Add(time.Hour), 200)
		if err != nil {
			return err
		}
		if last == after {
			break
		}
		after = last
		if err := l.QueueStored(ctx, stored); err != nil {
			return err
		}
	}
	return l.write(ctx, "finish queueing what was sold", true, func(ctx context.Context, u *unit) error {
		_, err := u.exec(ctx, "UPDATE log_head SET queued = 1 WHERE log = ?", log)
		return err
	})
}

// QueueStored implements payment.LogStore.
func (l *Ledger) QueueStored(ctx context.Context, entries []payment.StoredEntry) error {
	if len(entries) == 0 {
		return nil
	}
	return l.write(ctx, "queue what was sold", false, func(ctx context.Context, u *unit) error {
		for _, sold := range entries {
			e := newEntry(sold.Data)
			e.source = sold.Payment
			if err := u.enqueue(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// StoredEntries implements payment.LogStore. An answer that is none, as only tests and
// releases before receipts were signed have written, has no entry.
func (l *Ledger) StoredEntries(ctx context.Context, after int64, before time.Time, most int) (entries []payment.StoredEntry, last int64, err error) {
	type answer struct {
		number int64
		text   []byte
	}
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind(storedSQL), after, before.UnixMilli(), most)
	found, err := sqldb.All(rows, err, func(row sqldb.Scanner) (a answer, err error) {
		err = row.Scan(&a.number, &a.text)
		return a, err
	})
	if err != nil {
		return nil, after, fmt.Errorf("list answers: %w", err)
	}
	last = after
	for _, a := range found {
		last = a.number
		if e, err := receiptlog.EntryOfAnswer(a.text); err == nil {
			entries = append(entries, payment.StoredEntry{Payment: a.number, Data: e.Bytes()})
		}
	}
	return entries, last, nil
}

const headSQL = "SELECT log, origin, vkey, size, root, frozen, opened, closed, final FROM log_head"

func scanHead(row sqldb.Scanner) (h payment.LogHead, err error) {
	var root []byte
	var opened, closed int64
	if err := row.Scan(&h.Log, &h.Origin, &h.VKey, &h.Size, &root, &h.Frozen, &opened, &closed, &h.Final); err != nil {
		return payment.LogHead{}, err
	}
	copy(h.Root[:], root)
	h.Opened = moment(opened)
	if closed != 0 {
		h.Closed = moment(closed)
	}
	return h, nil
}

// Heads implements payment.LogStore.
func (l *Ledger) Heads(ctx context.Context) ([]payment.LogHead, error) {
	rows, err := l.db.Reader.QueryContext(ctx, headSQL+" ORDER BY log DESC")
	heads, err := sqldb.All(rows, err, scanHead)
	if err != nil {
		return nil, fmt.Errorf("read the heads of the log: %w", err)
	}
	return heads, nil
}

// logTx runs do in a transaction that is on disk when it returns, with the open log's head
// locked. It is one of its own and not of a batch of payments, which would wait for it: on
// SQLite, where every writer waits for the other, the caller bounds what it does.
func (l *Ledger) logTx(ctx context.Context, what string, do func(tx *sql.Tx, head payment.LogHead) error) error {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	err := l.db.Tx(ctx, func(tx *sql.Tx) error {
		query := headSQL + " WHERE closed = 0"
		if l.db.Dialect == sqldb.Postgres {
			if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
				return err
			}
			query += " FOR UPDATE"
		}
		head, err := scanHead(tx.QueryRowContext(ctx, query))
		if errors.Is(err, sql.ErrNoRows) {
			return payment.ErrNotFound
		}
		if err != nil {
			return err
		}
		return do(tx, head)
	})
	if err == nil || isRefusal(err) || errors.Is(err, payment.ErrFrozen) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Portion implements payment.LogStore.
func (l *Ledger) Portion() int {
	if l.db.Dialect == sqldb.Postgres {
		return 1000
	}
	return 100
}

// Sequence implements payment.LogStore.
func (l *Ledger) Sequence(ctx context.Context, most int) (head payment.LogHead, taken int, err error) {
	err = l.logTx(ctx, "sequence the log", func(tx *sql.Tx, h payment.LogHead) error {
		head, taken = h, 0
		if h.Frozen != "" {
			return payment.ErrFrozen
		}
		rows, err := tx.QueryContext(ctx, l.db.Rebind(sequenceSQL), receiptlog.MaxEntry+1, most)
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
		entries, err := l.setAside(ctx, tx, h, ids, queued)
		if err != nil {
			return err
		}
		if taken = len(queued); taken > 0 {
			// By their numbers: on Postgres one with a smaller number may be committed later.
			where, args := l.in(1, ids)
			if _, err := tx.ExecContext(ctx, dequeueSQL+where, args...); err != nil {
				return err
			}
		}
		if h.Size == 0 { // every generation begins with the last state of each key
			states, err := l.keyStates(ctx, tx)
			if err != nil {
				return err
			}
			entries = slices.Concat(states.begin(), entries)
		}
		if len(entries) == 0 {
			return nil
		}
		head, err = l.place(ctx, tx, h, entries)
		if err == nil && l.placing != nil {
			l.placing()
		}
		return err
	})
	return head, taken, err
}

// setAside returns those of the queued entries that may have a place, and keeps the others
// for the operator: once signed, what readers refuse ends the generation.
func (l *Ledger) setAside(ctx context.Context, tx *sql.Tx, h payment.LogHead, ids []int64, queued []entry) (entries []entry, err error) {
	var states keyStates // read where they are needed
	for i, e := range queued {
		parsed, refused := receiptlog.ParseEntry(e.bytes)
		if refused == nil && parsed.IsKey() {
			if states == nil {
				if states, err = l.keyStates(ctx, tx); err != nil {
					return nil, err
				}
			}
			refused = states.add(parsed, h)
		}
		if refused == nil {
			entries = append(entries, e)
		} else if _, err := tx.ExecContext(ctx, l.db.Rebind(setAsideSQL), refused.Error(), ids[i]); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// SetAside implements payment.LogStore.
func (l *Ledger) SetAside(ctx context.Context, most int) ([]payment.SetAside, error) {
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind("SELECT id, substr(entry, 1, ?), length(entry), queued, why FROM log_set_aside ORDER BY id LIMIT ?"),
		receiptlog.MaxEntry, most)
	all, err := sqldb.All(rows, err, func(row sqldb.Scanner) (a payment.SetAside, err error) {
		var queued int64
		err = row.Scan(&a.Number, &a.Begin, &a.Bytes, &queued, &a.Why)
		a.Queued = moment(queued)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what was set aside: %w", err)
	}
	return all, nil
}

// Discard implements payment.LogStore.
func (l *Ledger) Discard(ctx context.Context, number int64) error {
	return l.write(ctx, "discard what was set aside", true, func(ctx context.Context, u *unit) error {
		found, err := u.exec(ctx, "DELETE FROM log_set_aside WHERE id = ?", number)
		if err == nil && !found {
			err = payment.ErrNotFound
		}
		return err
	})
}

// Extend implements payment.LogStore.
func (l *Ledger) Extend(ctx context.Context, log, first int64, entries [][]byte) (head payment.LogHead, err error) {
	copied := make([]entry, len(entries))
	for i, data := range entries {
		copied[i] = newEntry(data)
		copied[i].source = fromCopy
	}
	err = l.logTx(ctx, "extend the log", func(tx *sql.Tx, h payment.LogHead) (err error) {
		if h.Log != log || h.Size != first {
			return payment.ErrLost
		}
		head, err = l.place(ctx, tx, h, copied)
		return err
	})
	return head, err
}

// place appends entries to the log, but those that it has.
func (l *Ledger) place(ctx context.Context, tx *sql.Tx, h payment.LogHead, entries []entry) (payment.LogHead, error) {
	fresh, err := l.unknown(ctx, tx, h.Log, entries)
	if err != nil || len(fresh) == 0 {
		return h, err
	}
	reader := &hashes{made: map[int64]tlog.Hash{}, stored: func(ids []int64) ([]payment.Digest, error) { return l.hashes(ctx, tx, h.Log, ids) }}
	// One query reads all stored hashes that the new ones are made with.
	if root, err := tlog.TreeHash(h.Size, reader); err != nil || payment.Digest(root) != h.Root {
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
	root, err := tlog.TreeHash(h.Size, reader)
	if err != nil {
		return h, err
	}
	h.Root = payment.Digest(root)
	if err := l.insert(ctx, tx, h.Log, first, fresh, at, made); err != nil {
		return h, err
	}
	_, err = tx.ExecContext(ctx, l.db.Rebind("UPDATE log_head SET size = ?, root = ? WHERE log = ?"), h.Size, h.Root[:], h.Log)
	return h, err
}

// unknown returns the entries that the log does not have, each once.
func (l *Ledger) unknown(ctx context.Context, tx *sql.Tx, log int64, entries []entry) (fresh []entry, err error) {
	leaves := make([][]byte, len(entries))
	for i, e := range entries {
		leaves[i] = e.leaf
	}
	known, err := l.known(ctx, tx, log, leaves)
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
func (l *Ledger) known(ctx context.Context, from queryer, log int64, leaves [][]byte) (map[string]bool, error) {
	known := map[string]bool{}
	if l.db.Dialect == sqldb.Postgres {
		rows, err := from.QueryContext(ctx, knownSQL, log, leaves)
		found, err := sqldb.All(rows, err, scanBytes)
		for _, leaf := range found {
			known[string(leaf)] = true
		}
		return known, err
	}
	stmt, err := from.PrepareContext(ctx, indexSQL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stmt.Close() }()
	for _, leaf := range leaves {
		var at int64
		switch err := stmt.QueryRowContext(ctx, log, leaf).Scan(&at); {
		case err == nil:
			known[string(leaf)] = true
		case !errors.Is(err, sql.ErrNoRows):
			return nil, err
		}
	}
	return known, nil
}

// Missing implements payment.LogStore.
func (l *Ledger) Missing(ctx context.Context, log int64, leaves []payment.Digest) (missing []payment.Digest, err error) {
	asked := make([][]byte, len(leaves))
	for i := range leaves {
		asked[i] = leaves[i][:]
	}
	known, err := l.known(ctx, l.db.Reader, log, asked)
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

// insert writes entries, the first at an index, and hashes: on Postgres in a statement
// each, because each is a round trip.
func (l *Ledger) insert(ctx context.Context, tx *sql.Tx, log, first int64, entries []entry, ids []int64, hashes [][]byte) error {
	if l.db.Dialect == sqldb.Postgres {
		var leaves, data [][]byte
		var sources []int64
		for _, e := range entries {
			leaves, data, sources = append(leaves, e.leaf), append(data, e.bytes), append(sources, e.source)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO log_entries (log, idx, leaf, entry, source, placed)
			SELECT $1, $2 + n - 1, leaf, entry, source, $6 FROM unnest($3::bytea[], $4::bytea[], $5::bigint[]) WITH ORDINALITY AS new (leaf, entry, source, n)`,
			log, first, leaves, data, sources, l.now().UnixMilli()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO log_hashes (log, id, hash) SELECT $1, id, hash FROM unnest($2::bigint[], $3::bytea[]) AS new (id, hash)", log, ids, hashes)
		return err
	}
	put, err := tx.PrepareContext(ctx, "INSERT INTO log_entries (log, idx, leaf, entry, source, placed) VALUES (?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer func() { _ = put.Close() }()
	for i, e := range entries {
		if _, err := put.ExecContext(ctx, log, first+int64(i), e.leaf, e.bytes, e.source, l.now().UnixMilli()); err != nil {
			return err
		}
	}
	keep, err := tx.PrepareContext(ctx, "INSERT INTO log_hashes (log, id, hash) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	defer func() { _ = keep.Close() }()
	for i, id := range ids {
		if _, err := keep.ExecContext(ctx, log, id, hashes[i]); err != nil {
			return err
		}
	}
	return nil
}

// hashes implements tlog.HashReader with stored hashes and those that were just made.
type hashes struct {
	made   map[int64]tlog.Hash
	stored func(ids []int64) ([]payment.Digest, error)
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
			out[i], found = tlog.Hash(found[0]), found[1:]
			r.made[id] = out[i]
		}
	}
	return out, nil
}

// in returns the condition that a column has one of these numbers, and its arguments, of
// which the first has that place. On Postgres it is one text for all, because each text
// would be prepared by itself, and push those of purchases out of the connection's cache.
func (l *Ledger) in(place int, ids []int64) (condition string, args []any) {
	if l.db.Dialect == sqldb.Postgres {
		return fmt.Sprintf("= ANY($%d)", place), []any{ids}
	}
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = strconv.FormatInt(id, 10)
	}
	return "IN (" + strings.Join(text, ",") + ")", nil
}

type queryer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func scanBytes(row sqldb.Scanner) (data []byte, err error) {
	err = row.Scan(&data)
	return data, err
}

// Hashes implements payment.LogStore.
func (l *Ledger) Hashes(ctx context.Context, log int64, ids []int64) ([]payment.Digest, error) {
	return l.hashes(ctx, l.db.Reader, log, ids)
}

func (l *Ledger) hashes(ctx context.Context, from queryer, log int64, ids []int64) ([]payment.Digest, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	by := map[int64][]byte{}
	where, args := l.in(2, ids)
	rows, err := from.QueryContext(ctx, l.db.Rebind(hashesSQL)+where, append([]any{log}, args...)...)
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
	out := make([]payment.Digest, len(ids))
	for i, id := range ids {
		if len(by[id]) != len(out[i]) {
			return nil, fmt.Errorf("hash %d of the log: %w", id, payment.ErrNotFound)
		}
		copy(out[i][:], by[id])
	}
	return out, nil
}

// Entries implements payment.LogStore.
func (l *Ledger) Entries(ctx context.Context, log, from int64, most int) ([][]byte, error) {
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind(entriesSQL), log, from, from+int64(most))
	entries, err := sqldb.All(rows, err, scanBytes)
	if err != nil {
		return nil, fmt.Errorf("read entries of the log: %w", err)
	}
	return entries, nil
}

const (
	entriesSQL = "SELECT entry FROM log_entries WHERE log = ? AND idx >= ? AND idx < ? ORDER BY idx"
	// loggedSQL is with the states of the payments that the entries were queued with.
	loggedSQL = `SELECT entry, source, placed, COALESCE((SELECT state FROM payments WHERE payments.id = log_entries.source), '')
		FROM log_entries WHERE log = ? AND idx >= ? AND idx < ? ORDER BY idx`
)

// Logged implements payment.LogStore.
func (l *Ledger) Logged(ctx context.Context, log, from int64, most int) ([]payment.LoggedEntry, error) {
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind(loggedSQL), log, from, from+int64(most))
	entries, err := sqldb.All(rows, err, func(row sqldb.Scanner) (e payment.LoggedEntry, err error) {
		var source, placed int64
		var state payment.State
		err = row.Scan(&e.Data, &source, &placed, &state)
		e.Placed = moment(placed)
		switch {
		case source == fromKey:
			e.Source = payment.FromKey
		case source == fromCopy:
			e.Source = payment.FromCopy
		case state != "" && state != payment.Working:
			e.Source = payment.FromSale
		}
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read entries of the log: %w", err)
	}
	return entries, nil
}

// Index implements payment.LogStore.
func (l *Ledger) Index(ctx context.Context, log int64, leaf payment.Digest) (at int64, err error) {
	switch err := l.row(ctx, indexSQL, log, leaf).Scan(&at); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, payment.ErrNotFound
	case err != nil:
		return 0, fmt.Errorf("find an entry of the log: %w", err)
	}
	return at, nil
}

// IsQueued implements payment.LogStore.
func (l *Ledger) IsQueued(ctx context.Context, leaf payment.Digest) (queued bool, err error) {
	if err := l.row(ctx, queuedSQL, leaf).Scan(&queued); err != nil {
		return false, fmt.Errorf("find a queued entry: %w", err)
	}
	return queued, nil
}

// Queue implements payment.LogStore.
func (l *Ledger) Queue(ctx context.Context) (q payment.LogQueue, err error) {
	var oldest int64
	if err := l.row(ctx, "SELECT count(*), COALESCE((SELECT queued FROM log_queue ORDER BY id LIMIT 1), 0), (SELECT count(*) FROM log_set_aside) FROM log_queue").
		Scan(&q.Entries, &oldest, &q.SetAside); err != nil {
		return q, fmt.Errorf("read the queue of the log: %w", err)
	}
	if q.Entries > 0 {
		q.Oldest = moment(oldest)
	}
	return q, nil
}

// Freeze implements payment.LogStore.
func (l *Ledger) Freeze(ctx context.Context, log int64, why string) error {
	return l.write(ctx, "freeze the log", true, func(ctx context.Context, u *unit) error {
		_, err := u.exec(ctx, "UPDATE log_head SET frozen = ? WHERE log = ? AND closed = 0 AND frozen = ''", why, log)
		return err
	})
}

// Resume implements payment.LogStore.
func (l *Ledger) Resume(ctx context.Context, log, size int64, why string) error {
	return l.write(ctx, "resume the log", true, func(ctx context.Context, u *unit) error {
		resumed, err := u.exec(ctx, "UPDATE log_head SET frozen = '' WHERE log = ? AND closed = 0 AND frozen = ? AND size = ?", log, why, size)
		if err == nil && !resumed {
			err = payment.ErrLost
		}
		return err
	})
}

// EndLog implements payment.LogStore.
func (l *Ledger) EndLog(ctx context.Context, log int64, final []byte, next payment.LogHead) error {
	empty, err := tlog.TreeHash(0, nil)
	if err != nil {
		return err
	}
	err = l.logTx(ctx, "end the log", func(tx *sql.Tx, h payment.LogHead) error {
		if h.Log != log {
			return payment.ErrLost
		}
		var served []byte
		err := tx.QueryRowContext(ctx, l.db.Rebind(publishedSQL), log).Scan(new(int64), &served, new(int64))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if !bytes.Equal(served, final) {
			return payment.ErrLost
		}
		now := l.now().UnixMilli()
		if _, err := tx.ExecContext(ctx, l.db.Rebind("UPDATE log_head SET closed = ?, final = ? WHERE log = ?"), now, final, log); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, l.db.Rebind(openLogSQL), next.Log, next.Origin, next.VKey, empty[:], now)
		return err
	})
	if err != nil {
		return err
	}
	return l.queueStored(ctx, next.Log)
}

// Publish implements payment.LogStore.
func (l *Ledger) Publish(ctx context.Context, log, size int64, note []byte) error {
	return l.logTx(ctx, "publish a checkpoint", func(tx *sql.Tx, h payment.LogHead) error {
		if h.Log != log {
			return payment.ErrLost
		}
		if _, err := tx.ExecContext(ctx, l.db.Rebind(`INSERT INTO log_checkpoints (log, size, note, published) VALUES (?, ?, ?, ?)
			ON CONFLICT (log, size) DO UPDATE SET note = excluded.note, published = excluded.published`), log, size, note, l.now().UnixMilli()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, l.db.Rebind("DELETE FROM log_checkpoints WHERE log = ? AND size < (SELECT max(size) FROM log_checkpoints WHERE log = ?)"), log, log)
		return err
	})
}

const publishedSQL = "SELECT size, note, published FROM log_checkpoints WHERE log = ? ORDER BY size DESC LIMIT 1"

// Published implements payment.LogStore.
func (l *Ledger) Published(ctx context.Context, log int64) (p payment.PublishedCheckpoint, err error) {
	var at int64
	switch err := l.row(ctx, publishedSQL, log).Scan(&p.Size, &p.Note, &at); {
	case errors.Is(err, sql.ErrNoRows):
		return p, payment.ErrNotFound
	case err != nil:
		return p, fmt.Errorf("read the published checkpoint: %w", err)
	}
	p.At = moment(at)
	return p, nil
}

// SetWitness implements payment.LogStore.
func (l *Ledger) SetWitness(ctx context.Context, log int64, name string, size int64) error {
	_, err := l.exec(ctx, "remember a witness", `INSERT INTO log_witnesses (log, name, size, seen) VALUES (?, ?, ?, ?)
		ON CONFLICT (log, name) DO UPDATE SET size = excluded.size, seen = excluded.seen`, log, name, size, l.now())
	return err
}

// WitnessSize implements payment.LogStore.
func (l *Ledger) WitnessSize(ctx context.Context, log int64, name string) (size int64, err error) {
	err = l.row(ctx, "SELECT size FROM log_witnesses WHERE log = ? AND name = ?", log, name).Scan(&size)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read a witness's size: %w", err)
	}
	return size, nil
}

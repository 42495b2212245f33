package logsql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

// ListKeys implements translog.Store.
func (s *Store) ListKeys(ctx context.Context, keys []receipt.Key) (listed []receipt.Key, err error) {
	err = s.logTx(ctx, "list the keys in the log", func(tx *sql.Tx, open translog.Head) error {
		limits, err := s.cutOffLimits(ctx, tx)
		if err != nil {
			return err
		}
		listed = withClosed(keys, limits)
		if open.Frozen != "" {
			return nil // states may be missing that come back
		}
		states, err := s.keyStates(ctx, tx)
		if err == nil {
			err = s.addQueued(ctx, tx, states, open)
		}
		if err != nil {
			return err
		}
		for _, key := range listed {
			last := states[key.KeyID]
			// What was logged before states were numbered does not go over into the next generation.
			if last.States(key, last.origin) && (last.Number > 0 || last.log == open.Log) {
				continue
			}
			e, err := receiptlog.NewNumberedKeyEntry(last.Number+1, key)
			if err == nil {
				err = limits.check(key)
			}
			if err == nil {
				err = states.add(e, open)
			}
			if err != nil {
				return err
			}
			queued := newEntry(e.Bytes())
			_, err = s.db.Exec(ctx, tx, enqueueSQL, queued.leaf, queued.bytes, s.now().UnixMilli(), queued.source)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return listed, err
}

// limit is how far cut-offs in a generation may go: to its end.
type limit struct {
	origin string
	size   int64
	closed bool
}

type limits []limit

// cutOffLimits returns the limits of all generations, the newest first.
func (s *Store) cutOffLimits(ctx context.Context, tx *sql.Tx) (limits, error) {
	rows, err := tx.QueryContext(ctx, `SELECT origin, closed,
		CASE WHEN closed = 0 THEN size
			ELSE COALESCE((SELECT max(size) FROM log_checkpoints WHERE log_checkpoints.log = log_head.log), 0) END
		FROM log_head ORDER BY log DESC`)
	return sqldb.All(rows, err, func(row sqldb.Scanner) (a limit, err error) {
		var closed int64
		err = row.Scan(&a.origin, &closed, &a.size)
		a.closed = closed != 0
		return a, err
	})
}

// check returns receiptlog.ErrKeyState if a cut-off of a key names no generation of this log or lies beyond its end.
func (l limits) check(key receipt.Key) error {
	if key.Logged == nil {
		return nil
	}
	for _, cutOff := range key.Logged.All() {
		before, err := cutOff.Index()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(l, func(g limit) bool { return g.origin == cutOff.Origin })
		switch {
		case i < 0:
			return fmt.Errorf("%w: %s: its cut-off names %s, which is no generation of this log",
				receiptlog.ErrKeyState, key.KeyID, cutOff.Origin)
		case before > l[i].size:
			return fmt.Errorf("%w: %s: its cut-off is %d, and %s has %d entries",
				receiptlog.ErrKeyState, key.KeyID, before, cutOff.Origin, l[i].size)
		}
	}
	return nil
}

// withClosed returns the keys with further cut-offs for the revoked ones. Each closed generation with
// entries that is older than the newest one named by a key's cut-offs, and not named itself, gets a
// cut-off at its end: what was logged there was logged earlier.
func withClosed(keys []receipt.Key, all limits) []receipt.Key {
	keys = slices.Clone(keys)
	for i, key := range keys {
		if key.Logged == nil {
			continue
		}
		named := map[string]bool{}
		for _, cutOff := range key.Logged.All() {
			named[cutOff.Origin] = true
		}
		filled := *key.Logged
		filled.Earlier = slices.Clone(filled.Earlier)
		later := false // whether a named generation is newer than g
		for _, g := range all {
			if named[g.origin] {
				later = true
			} else if later && g.closed && g.size > 0 {
				end := receipt.Logged{Origin: g.origin, Before: strconv.FormatInt(g.size, 10)}
				filled.Earlier = append(filled.Earlier, end)
			}
		}
		keys[i].Logged = &filled
	}
	return keys
}

// keyState is the last state of a key, and the generation that has it or will have it.
type keyState struct {
	receiptlog.Entry
	log    int64
	origin string
}

// keyStates are the last states by key id. They are read and changed with the head locked,
// so that no two states of a key have one number.
type keyStates map[string]keyState

// add makes e the last state of its key; in is the generation that has e, or will have it.
// receiptlog.ErrKeyState: e may not follow the state that was the last.
func (s keyStates) add(e receiptlog.Entry, in translog.Head) error {
	last, known := s[e.KeyID]
	var err error
	switch {
	case !known && e.Number > 1:
		err = fmt.Errorf("%w: %s: its first state has the number %d", receiptlog.ErrKeyState, e.KeyID, e.Number)
	case known && e != last.Entry:
		err = e.Follows(last.Entry, last.origin)
	}
	if err == nil {
		s[e.KeyID] = keyState{e, in.Log, in.Origin}
	}
	return err
}

// begin returns the entries that a new generation begins with: the last state of each key whose last
// state is numbered.
func (s keyStates) begin() (entries []entry) {
	for _, id := range slices.Sorted(maps.Keys(s)) {
		if s[id].Number > 0 {
			entries = append(entries, newEntry(s[id].Bytes()))
		}
	}
	return entries
}

// Queries for the states of keys in the log, by a condition that repeats that of the index
// log_entries_keys word for word, and in the queue.
const (
	keyStatesSQL = "SELECT log_entries.log, origin, entry FROM log_entries " +
		"JOIN log_head ON log_head.log = log_entries.log WHERE "
	keyStatesSQLite = "substr(entry, 1, 19) = X'636861696E2D65766964656E63652D6B65792F' " +
		"ORDER BY log_entries.log, idx"
	keyStatesPostgres = `substr(entry, 1, 19) = '\x636861696e2d65766964656e63652d6b65792f'::bytea ` +
		"ORDER BY log_entries.log, idx"
	queuedKeyStatesSQL = "SELECT substr(entry, 1, ?) FROM log_queue WHERE source = 0 ORDER BY id"
)

// keyStates returns the last state of each key that has a place in the log.
func (s *Store) keyStates(ctx context.Context, tx *sql.Tx) (keyStates, error) {
	query := keyStatesSQL + keyStatesSQLite
	if s.db.Dialect == sqldb.Postgres {
		query = keyStatesSQL + keyStatesPostgres
	}
	states := keyStates{}
	rows, err := tx.QueryContext(ctx, query)
	_, err = sqldb.All(rows, err, func(row sqldb.Scanner) (none struct{}, err error) {
		var in translog.Head
		var data []byte
		err = row.Scan(&in.Log, &in.Origin, &data)
		if e, malformed := receiptlog.ParseEntry(data); err == nil && malformed == nil {
			states[e.KeyID] = keyState{e, in.Log, in.Origin} // it has its place, whatever was before it
		}
		return none, err
	})
	return states, err
}

// addQueued adds the states that wait for their places and will get them.
func (s *Store) addQueued(ctx context.Context, tx *sql.Tx, states keyStates, open translog.Head) error {
	rows, err := tx.QueryContext(ctx, s.db.Rebind(queuedKeyStatesSQL), receiptlog.MaxEntry+1)
	_, err = sqldb.All(rows, err, func(row sqldb.Scanner) (none struct{}, err error) {
		var data []byte
		err = row.Scan(&data)
		if e, malformed := receiptlog.ParseEntry(data); err == nil && malformed == nil && e.IsKey() {
			_ = states.add(e, open) // else it is set aside
		}
		return none, err
	})
	return err
}

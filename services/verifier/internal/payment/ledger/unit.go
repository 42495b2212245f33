package ledger

import (
	"context"
	"database/sql"

	"github.com/pforte/pforte/pkg/sqldb"
)

const (
	reservedSQL = "SELECT COALESCE((SELECT reserved FROM settlements WHERE month = ?), 0)"
	countSQL    = `INSERT INTO settlements (month, reserved) VALUES (?, ?)
	ON CONFLICT (month) DO UPDATE SET reserved = settlements.reserved + excluded.reserved`
)

// unit is the transaction of a batch. The settlements of a month are read when
// the first of its writes needs them, and written once, at the end, if there are
// more or fewer: a transaction that changes nothing does not wait for the disk.
type unit struct {
	*sql.Tx
	db     *sqldb.DB
	count  *sql.Stmt
	months map[string]*tally
}

// tally is a month's reserved settlements, and how many the unit has added.
type tally struct{ reserved, added int }

// month returns a month's tally. From then on, until the unit ends, no other
// replica looks at limits and identifiers: a lock for all months, because the
// clocks of replicas may be in different ones. SQLite's write transactions are
// alone anyway.
func (u *unit) month(ctx context.Context, name string) (*tally, error) {
	if t, ok := u.months[name]; ok {
		return t, nil
	}
	if u.db.Dialect == sqldb.Postgres {
		if _, err := u.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext('pforte: settlements'))"); err != nil {
			return nil, wrap("lock the settlements", err)
		}
	}
	t := &tally{}
	if err := u.QueryRowContext(ctx, u.db.Rebind(reservedSQL), name).Scan(&t.reserved); err != nil {
		return nil, wrap("count settlements", err)
	}
	if u.months == nil {
		u.months = map[string]*tally{}
	}
	u.months[name] = t
	return t, nil
}

// add changes how many settlements of a month are reserved.
func (u *unit) add(ctx context.Context, month string, n int) error {
	t, err := u.month(ctx, month)
	if err != nil {
		return err
	}
	t.reserved += n
	t.added += n
	return nil
}

// end writes what was added.
func (u *unit) end(ctx context.Context) error {
	for name, t := range u.months {
		if t.added == 0 {
			continue
		}
		if _, err := changed(ctx, u.Tx, u.count, name, t.added); err != nil {
			return wrap("write the month's settlements", err)
		}
	}
	return nil
}

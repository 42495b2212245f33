package sqlledger

import (
	"context"
	"database/sql"

	"github.com/pforte/pforte/pkg/sqldb"
)

const countSQL = `INSERT INTO settlements (month, reserved) VALUES (?, ?)
	ON CONFLICT (month) DO UPDATE SET reserved = settlements.reserved + excluded.reserved RETURNING reserved`

// unit is the transaction of a batch. The settlements of a month are read when
// the first of its writes asks for them, and written once, at the end.
type unit struct {
	*sql.Tx
	dialect sqldb.Dialect
	count   *sql.Stmt
	months  map[string]*tally
	under   *write // what is being run
}

// unchanged says that the write which is being run has written nothing, so that
// its caller need not wait for the disk.
func (u *unit) unchanged() { u.under.waits = false }

// tally is a month's reserved settlements, and how many the unit has added.
type tally struct{ reserved, added int }

// month gives a month's tally. From then on, until the unit ends, no other
// replica looks at limits and identifiers: a lock for all months, because at
// their turn replicas may be in different ones. SQLite's write transactions are
// alone anyway.
func (u *unit) month(ctx context.Context, name string) (*tally, error) {
	if t, ok := u.months[name]; ok {
		return t, nil
	}
	if u.dialect == sqldb.Postgres {
		if _, err := u.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext('pforte: settlements'))"); err != nil {
			return nil, wrap("wait to count settlements", err)
		}
	}
	t := &tally{}
	if err := in(ctx, u.Tx, u.count, name, 0).Scan(&t.reserved); err != nil {
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

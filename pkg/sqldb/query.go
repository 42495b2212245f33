package sqldb

import "context"

// Query is a query of one row, carried out by the reader. It is for queries that every request
// makes: on SQLite they start no goroutines (Row.Scan).
type Query struct {
	db   *DB
	text string
}

// Query returns the query with this text, whose placeholders are ?.
func (db *DB) Query(text string) *Query { return &Query{db: db, text: db.Rebind(text)} }

// Row is a row that is read by Scan.
type Row struct {
	query *Query
	ctx   context.Context //nolint:containedctx // of the one call of Scan
	args  []any
}

// Row returns the first row for these arguments. Its Scan carries out the query.
func (q *Query) Row(ctx context.Context, args ...any) Row { return Row{q, ctx, args} }

// Scan carries out the query and reads its row, as sql.Row does. sql.ErrNoRows.
//
// On SQLite the context ends only the wait for other Queries: for a context that may end,
// database/sql and the driver start two goroutines in each query, which cost more than
// the query. A reader in WAL mode waits for nothing but the disk, and that cannot be
// interrupted.
func (r Row) Scan(dest ...any) error {
	q, ctx := r.query, r.ctx
	if q.db.Dialect == SQLite {
		select {
		case q.db.reading <- struct{}{}:
			defer func() { <-q.db.reading }()
		case <-ctx.Done():
			return ctx.Err()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ctx = context.WithoutCancel(ctx)
	}
	return q.db.Reader.QueryRowContext(ctx, q.text, r.args...).Scan(dest...)
}

package sqldb

import (
	"context"
	"database/sql"
	"sync"
)

// Query is a query of one row, carried out by the reader. It is for those of every
// request: it is prepared once for each connection, because to parse it costs SQLite
// more than to carry it out.
type Query struct {
	db   *DB
	text string

	mu       sync.Mutex
	prepared *sql.Stmt // nil before the first row
}

// Query returns the query with this text, whose placeholders are ?.
func (db *DB) Query(text string) *Query { return &Query{db: db, text: db.Rebind(text)} }

// Row is a row that is read by Scan.
type Row struct {
	query *Query
	ctx   context.Context //nolint:containedctx // of the one call of Scan
	args  []any
}

// Row returns the first row for these arguments.
func (q *Query) Row(ctx context.Context, args ...any) Row { return Row{q, ctx, args} }

// Scan carries out the query and reads its row, as sql.Row does. sql.ErrNoRows.
//
// On SQLite the context ends only the wait for a connection: for a context that may end,
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
	prepared, err := q.prepare(ctx) //nolint:sqlclosecheck // closed with the database
	if err != nil {
		return err
	}
	return prepared.QueryRowContext(ctx, r.args...).Scan(dest...)
}

func (q *Query) prepare(ctx context.Context) (*sql.Stmt, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.prepared == nil {
		prepared, err := q.db.Reader.PrepareContext(ctx, q.text)
		if err != nil {
			return nil, err
		}
		q.prepared = prepared
	}
	return q.prepared, nil
}

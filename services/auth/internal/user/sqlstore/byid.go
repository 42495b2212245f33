package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/pforte/pforte/pkg/batch"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// ByID implements user.Store. It is asked for with every GET /me, and on SQLite
// the way to the answer costs more than the answer: those who ask at once are
// answered by one query. Postgres answers each alone, and as many at once as it
// has connections.
func (s *Store) ByID(ctx context.Context, id int64) (user.User, error) {
	if s.db.Dialect == sqldb.SQLite {
		ctx, span := tracing.Call(ctx, "sql", "read user")
		defer span.End("")
		return s.reads.Do(ctx, id)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.one(ctx, s.db.Reader, byID, id)
}

const byID = `id = ?`

// byIDs takes the ids as a JSON array.
const byIDs = selectUser + `id IN (SELECT value FROM json_each(?))`

// readAll answers the calls of one trip.
func (s *Store) readAll(ctx context.Context, calls []*batch.Call[int64, user.User]) {
	found, err := s.find(ctx, calls)
	for _, c := range calls {
		u, ok := found[c.Key]
		switch {
		case err != nil:
			c.Err = err
		case !ok:
			c.Err = user.ErrNotFound
		default:
			c.Value = u
		}
	}
}

// find gives the users who exist. It does without a context that ends, for which
// database/sql would keep two goroutines ready to break off what takes
// microseconds.
func (s *Store) find(ctx context.Context, calls []*batch.Call[int64, user.User]) (found map[int64]user.User, err error) {
	ctx = context.WithoutCancel(ctx)
	ids := make([]int64, len(calls))
	for i, c := range calls {
		ids[i] = c.Key
	}
	rows, err := s.rows(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read users: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found = map[int64]user.User{}
	for rows.Next() {
		u, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found[u.ID] = u
	}
	return found, rows.Err()
}

// rows asks for users. For a list SQLite makes a table first, which costs more
// than the row of one user.
func (s *Store) rows(ctx context.Context, ids []int64) (*sql.Rows, error) {
	if len(ids) == 1 {
		return s.byID.query(ctx, s.db.Reader, selectUser+byID, ids[0])
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return s.byIDs.query(ctx, s.db.Reader, byIDs, string(list))
}

// prepared is a query that is prepared when it is first asked for, and closed
// with its pool.
type prepared struct {
	mu   sync.Mutex
	stmt *sql.Stmt
}

// query asks. The statement is closed with the database.
func (p *prepared) query(ctx context.Context, pool *sql.DB, query string, arg any) (*sql.Rows, error) {
	stmt, err := p.on(ctx, pool, query) //nolint:sqlclosecheck // as above
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, arg)
}

func (p *prepared) on(ctx context.Context, pool *sql.DB, query string) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stmt != nil {
		return p.stmt, nil
	}
	stmt, err := pool.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare a query: %w", err)
	}
	p.stmt = stmt
	return stmt, nil
}

package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// ByID implements user.Store. It is asked for with every GET /me, so on SQLite it
// does without what costs more than the answer: parsing the query each time, and
// two goroutines ready to break off what takes microseconds. Postgres' driver
// keeps prepared queries by itself, and its answer may not come.
func (s *Store) ByID(ctx context.Context, id int64) (user.User, error) {
	if s.db.Dialect == sqldb.SQLite {
		ctx = context.WithoutCancel(ctx)
		query, err := s.byID.on(ctx, s.db.Reader, selectUser+byID) //nolint:sqlclosecheck // closed with the database
		if err != nil {
			return user.User{}, err
		}
		return scan(query.QueryRowContext(ctx, id))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.one(ctx, s.db.Reader, byID, id)
}

const byID = `id = ?`

// prepared is a query that is prepared when it is first asked for, and closed
// with its pool.
type prepared struct {
	mu    sync.Mutex
	query *sql.Stmt
}

func (p *prepared) on(ctx context.Context, pool *sql.DB, query string) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.query != nil {
		return p.query, nil
	}
	stmt, err := pool.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare a query: %w", err)
	}
	p.query = stmt
	return stmt, nil
}

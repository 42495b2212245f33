package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// importTimeout bounds an import, which no request waits for.
const importTimeout = 2 * time.Minute

// Import implements user.Store.
func (s *Store) Import(ctx context.Context, users []user.User) ([]user.Revocation, error) {
	var revocations []user.Revocation
	err := s.txWithin(ctx, importTimeout, "import users", func(ctx context.Context, tx *sql.Tx) error {
		revocations = nil // a transaction may run again
		if err := s.alone(ctx, tx); err != nil {
			return err
		}
		for _, u := range user.ByGivenID(users) {
			if err := s.importOne(ctx, tx, u); err != nil {
				return fmt.Errorf("%s: %w", u.Username, err)
			}
			if u.ID == 0 {
				continue
			}
			r := user.Revocation{UserID: u.ID, Kind: user.RevokeSessions}
			if err := s.record(ctx, tx, &r); err != nil {
				return err
			}
			revocations = append(revocations, r)
		}
		return nil
	})
	return revocations, err
}

func (s *Store) importOne(ctx context.Context, tx *sql.Tx, u user.User) error {
	if u.ID != 0 {
		var taken bool
		err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT EXISTS (SELECT 1 FROM users WHERE id = ?)`), u.ID).Scan(&taken)
		if err == nil && taken {
			err = user.ErrIDTaken
		}
		if err == nil {
			err = s.moveIDs(ctx, tx, u.ID)
		}
		if err != nil {
			return err
		}
	}
	_, err := s.insert(ctx, tx, u)
	return err
}

// moveIDs makes later ids higher than id, which SQLite's AUTOINCREMENT does by itself.
// A roll-back leaves the sequence of Postgres moved, which skips some ids.
func (s *Store) moveIDs(ctx context.Context, tx *sql.Tx, id int64) error {
	if s.db.Dialect != sqldb.Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT setval(ids, greatest($1, coalesce(pg_sequence_last_value(ids), 1)))
		FROM (SELECT pg_get_serial_sequence('users', 'id')::regclass AS ids) AS sequence`, id)
	return err
}

package ledger

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

//go:embed migrations
var migrations embed.FS

// Ledger implements payment.Ledger on SQL.
type Ledger struct {
	db  *sqldb.DB
	now func() time.Time
	// prepared are the queries of a sale; writes is the one way to change
	// something.
	prepared statements
	writes   *batcher
}

var _ payment.Ledger = (*Ledger)(nil)

// Open opens the ledger of a database URL (see sqldb.Open) and applies missing
// migrations. now is the clock.
func Open(ctx context.Context, databaseURL string, now func() time.Time) (*Ledger, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read the ledger's migrations: %w", err)
	}
	db, err := sqldb.Open(ctx, databaseURL, files)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	prepared, err := prepare(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Ledger{db: db, now: now, prepared: prepared, writes: newBatcher(db, prepared.count)}, nil //nolint:contextcheck // batches outlive Open
}

// Close finishes the writes under way and closes the database.
func (l *Ledger) Close() error {
	l.writes.close()
	return errors.Join(l.prepared.close(), l.db.Close())
}

// Ping implements payment.Ledger.
func (l *Ledger) Ping(ctx context.Context) error { return l.db.Ping(ctx) }

// stamp is the clock in the tables' unit.
func (l *Ledger) stamp() int64 { return l.now().UnixMilli() }

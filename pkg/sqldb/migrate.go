package sqldb

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

// migrate applies what is missing. On Postgres a session lock makes replicas
// that start together wait for one another; SQLite has a file lock already.
func (db *DB) migrate(ctx context.Context, migrations fs.FS) error {
	files, err := fs.Sub(migrations, string(db.Dialect))
	if err != nil {
		return fmt.Errorf("find migrations: %w", err)
	}
	dialect := database.DialectSQLite3
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if db.Dialect == Postgres {
		dialect = database.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
		if err != nil {
			return fmt.Errorf("make the migration lock: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, db.Writer, files, options...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return db.up(ctx, provider)
}

// up runs the provider. Two processes that open one new SQLite file at the same
// moment both find the schema missing; the loser's statement fails and its next
// try finds everything there.
func (db *DB) up(ctx context.Context, provider *goose.Provider) error {
	var err error
	for range 5 {
		if _, err = provider.Up(ctx); err == nil || db.Dialect == Postgres {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}

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
			return fmt.Errorf("create the migration lock: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, db.Writer, files, options...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return db.up(ctx, provider)
}

// retryPause is between two tries of a SQLite file that another process changes.
const retryPause = 50 * time.Millisecond

// up runs the provider. Processes that open one new SQLite file at the same
// moment all find a migration missing; all but one fail in it and find it applied
// when they try again. So up returns an error only after several tries between
// which the schema's version did not change.
func (db *DB) up(ctx context.Context, provider *goose.Provider) error {
	const tries = 10
	last := int64(-1)
	for left := tries; ; left-- {
		_, err := provider.Up(ctx)
		if err == nil || db.Dialect == Postgres {
			return err
		}
		if version, versionErr := provider.GetDBVersion(ctx); versionErr == nil && version != last {
			last, left = version, tries
		}
		if left == 1 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

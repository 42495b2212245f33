package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/serve"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/user/sqlstore"
)

// with opens the stores of the settings for a command at the terminal.
func (p Process) with(ctx context.Context, do func(*account.Service) error) (err error) {
	cfg, err := config.LoadStores(p.Getenv)
	if err != nil {
		return fmt.Errorf("the settings are wrong:\n%w", err)
	}
	log := slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	redis.SetLogger(redisLog{log})
	open, err := openStores(ctx, cfg, p.Passwords, log, newStoreMetrics())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	return do(open.accounts)
}

// migrate is "auth migrate".
func migrate(ctx context.Context, p Process, args []string) error {
	if _, err := parse(newFlags("migrate"), args); err != nil {
		return err
	}
	cfg, err := config.LoadStores(p.Getenv)
	if err != nil {
		return fmt.Errorf("the settings are wrong:\n%w", err)
	}
	migrations, err := sqlstore.Migrations()
	if err != nil {
		return fmt.Errorf("find migrations: %w", err)
	}
	db, err := sqldb.Open(ctx, cfg.DatabaseURL, migrations)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Stdout, "the database is up to date")
	return err
}

// healthcheck is "auth healthcheck", which a container runs.
func healthcheck(ctx context.Context, p Process, args []string) error {
	if _, err := parse(newFlags("healthcheck"), args); err != nil {
		return err
	}
	addr := p.Getenv("ADDR")
	if addr == "" {
		addr = config.DefaultAddr
	}
	return serve.Healthcheck(ctx, addr, "/health")
}

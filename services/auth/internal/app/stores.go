package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	sessionredis "github.com/pforte/pforte/services/auth/internal/session/redisstore"
	"github.com/pforte/pforte/services/auth/internal/user/sqlstore"
)

// stores are the open stores and the rules over them.
type stores struct {
	db       *sqldb.DB
	redis    redis.UniversalClient
	sessions session.Store
	hasher   *password.Hasher
	accounts *account.Service
}

// openStores opens the database, which it brings up to date, and a client for
// Redis, which does not connect yet.
func openStores(ctx context.Context, cfg config.Stores, passwords password.Options, log *slog.Logger, metrics *storeMetrics) (*stores, error) {
	target, err := config.ParseRedisURL(cfg.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	migrations, err := sqlstore.Migrations()
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	db, err := sqldb.Open(ctx, cfg.DatabaseURL, migrations)
	if err != nil {
		return nil, err
	}
	s := &stores{db: db, redis: openRedis(target, metrics)}
	s.sessions = countedSessions{sessionredis.New(s.redis, cfg.AppName), metrics}
	if s.hasher, err = password.New(passwords); err == nil {
		s.accounts, err = account.New(account.Options{
			Users: sqlstore.New(db, time.Now), Sessions: s.sessions, Passwords: s.hasher, Log: log, Now: time.Now,
		})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes both.
func (s *stores) Close() error { return errors.Join(s.redis.Close(), s.db.Close()) }

// healthTimeout bounds how long a store may take to answer a ping.
const healthTimeout = 2 * time.Second

// health fails while a store does not answer. Both are pinged at once.
func (s *stores) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	database := make(chan error, 1)
	go func() { database <- named("database", s.db.Ping(ctx)) }()
	return errors.Join(s.pingRedis(ctx), <-database)
}

func (s *stores) pingRedis(ctx context.Context) error {
	return named("redis", s.redis.Ping(ctx).Err())
}

func named(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

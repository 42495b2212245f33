package redisstore

import (
	"context"
	_ "embed" // the Lua scripts
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

var (
	//go:embed lua/spend.lua
	luaSpend string
	//go:embed lua/refund.lua
	luaRefund string
)

// errReply says that a script answered in a shape it does not have.
var errReply = errors.New("unexpected reply of a script")

// Store is a ratelimit.Store in Redis.
type Store struct {
	client        redis.UniversalClient
	app           string
	spend, refund *redis.Script
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store whose keys begin with the application's name.
func New(client redis.UniversalClient, app string) *Store {
	return &Store{client: client, app: app, spend: redis.NewScript(luaSpend), refund: redis.NewScript(luaRefund)}
}

// Spend implements ratelimit.Store.
func (s *Store) Spend(ctx context.Context, key, attempt string, limit int, window time.Duration) (ratelimit.Count, error) {
	return s.run(ctx, s.spend, key, attempt, limit, window.Milliseconds())
}

// Refund implements ratelimit.Store.
func (s *Store) Refund(ctx context.Context, key, attempt string) (ratelimit.Count, error) {
	return s.run(ctx, s.refund, key, attempt)
}

func (s *Store) run(ctx context.Context, script *redis.Script, key string, args ...any) (ratelimit.Count, error) {
	reply, err := script.Run(ctx, s.client, []string{s.app + ":limit:" + key}, args...).Int64Slice()
	if err != nil {
		return ratelimit.Count{}, fmt.Errorf("ask Redis: %w", err)
	}
	if len(reply) != 3 {
		return ratelimit.Count{}, errReply
	}
	left := max(0, time.Duration(reply[2])*time.Millisecond) // negative: there is no window
	return ratelimit.Count{Taken: reply[0] == 1, Attempts: int(reply[1]), Left: left}, nil
}

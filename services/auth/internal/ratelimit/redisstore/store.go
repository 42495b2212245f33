package redisstore

import (
	"context"
	_ "embed" // the Lua scripts
	"errors"
	"fmt"
	"slices"
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

// errReply is returned for a reply that the script cannot produce.
var errReply = errors.New("redis: unexpected reply of the script")

// Store is a ratelimit.Store in Redis.
type Store struct {
	client        redis.UniversalClient
	app           string
	spend, refund *redis.Script
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store whose keys begin with the application's name, which has no braces.
func New(client redis.UniversalClient, app string) *Store {
	return &Store{client: client, app: app, spend: redis.NewScript(luaSpend), refund: redis.NewScript(luaRefund)}
}

// Spend implements ratelimit.Store.
func (s *Store) Spend(ctx context.Context, attempt string, length time.Duration, keys ...ratelimit.Key) (ratelimit.Count, error) {
	args := []any{attempt, length.Milliseconds()}
	for _, key := range keys {
		args = append(args, key.Limit)
	}
	return s.run(ctx, s.spend, keys, args...)
}

// Refund implements ratelimit.Store.
func (s *Store) Refund(ctx context.Context, attempt string, keys ...ratelimit.Key) (ratelimit.Count, error) {
	return s.run(ctx, s.refund, keys, attempt)
}

func (s *Store) run(ctx context.Context, script *redis.Script, keys []ratelimit.Key, args ...any) (ratelimit.Count, error) {
	reply, err := script.Run(ctx, s.client, s.windows(keys), args...).Int64Slice()
	if err != nil {
		return ratelimit.Count{}, fmt.Errorf("redis: %w", err)
	}
	if len(reply) != 1+2*len(keys) {
		return ratelimit.Count{}, errReply
	}
	count := ratelimit.Count{Taken: reply[0] == 1}
	for window := range slices.Chunk(reply[1:], 2) {
		left := max(0, time.Duration(window[1])*time.Millisecond) // negative: no window
		count.Windows = append(count.Windows, ratelimit.Window{Attempts: int(window[0]), Left: left})
	}
	return count, nil
}

// windows returns the keys in Redis. Several share the last one as hash tag, and so a
// slot.
func (s *Store) windows(keys []ratelimit.Key) []string {
	prefix := s.app + ":limit:"
	if len(keys) > 1 {
		prefix += "{" + keys[len(keys)-1].Name + "}:"
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = prefix + key.Name
	}
	return names
}

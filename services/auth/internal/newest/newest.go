// Package newest bounds what strangers, or one user, have kept in Redis (6 or later; alone, with Sentinel or as a
// Cluster).
//
// A limit by address bounds nothing, because networks are many and cheap, and when Redis is full nobody can log in.
// So of each kind the newest are kept, whoever they are for. A flood shortens the time that others have to finish, and
// refuses nobody.
//
// The names of the keys of a kind are in a sorted set, "<app>:newest:<kind>".
package newest

import (
	"context"
	_ "embed" // the Lua script
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/add.lua
var luaAdd string

var addScript = redis.NewScript(luaAdd)

// PlaceBytes is how long a value may be that takes one place, and Most how many places there are of each kind: 20 MB,
// where the smallest Redis that we set up has 64.
const (
	PlaceBytes = 2 << 10
	Most       = 8 << 10
)

// List has the newest keys of a kind.
type List struct {
	client redis.UniversalClient
	key    string
	life   time.Duration
}

// New returns the list of a kind, whose keys live for at most life. app begins all keys in Redis.
func New(client redis.UniversalClient, app, kind string, life time.Duration) *List {
	return &List{client, app + ":newest:" + kind, life}
}

// Add notes a key before it is set to a value of so many bytes, and removes the oldest ones beyond Most places.
func (l *List) Add(ctx context.Context, key string, size int) error {
	oldest, err := addScript.Run(ctx, l.client, []string{l.key}, key, places(size), Most,
		l.life.Milliseconds()).StringSlice()
	if err == nil && len(oldest) > 0 {
		_, err = l.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // of several slots of a Cluster
			for _, name := range oldest {
				pipe.Unlink(ctx, name)
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("redis: keep the newest: %w", err)
	}
	return nil
}

// Remove takes back what Add has noted of a key that is gone.
func (l *List) Remove(ctx context.Context, key string, size int) error {
	members := make([]any, places(size))
	for i := range members {
		members[i] = fmt.Sprint(i+1, " ", key)
	}
	if err := l.client.ZRem(ctx, l.key, members...).Err(); err != nil {
		return fmt.Errorf("redis: keep the newest: %w", err)
	}
	return nil
}

func places(size int) int { return 1 + size/PlaceBytes }

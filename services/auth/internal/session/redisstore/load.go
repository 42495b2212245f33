package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/batch"
	"github.com/pforte/pforte/pkg/tracing"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// batchTimeout bounds one pipeline of loads, retries included.
const batchTimeout = 4 * time.Second

// load are the arguments of one Load.
type load struct {
	ref      session.Ref
	lifetime time.Duration
}

// Load implements session.Store. Every request calls it, and sending and receiving is
// most of its cost, which concurrent loads share in one pipeline. In a Cluster each is
// sent alone, so that a node that is away does not delay sessions on other nodes.
func (s *Store) Load(ctx context.Context, ref session.Ref, lifetime time.Duration) (session.Session, error) {
	values, err := s.values(ctx, load{ref, lifetime})
	if err != nil {
		return session.Session{}, failed("load session", err)
	}
	if len(values) == 0 {
		return session.Session{}, session.ErrNotFound
	}
	return decode(ref, values)
}

// values returns those of a session's hash, none when it does not exist.
func (s *Store) values(ctx context.Context, l load) ([]string, error) {
	if s.loads == nil {
		return s.scripts.load.Run(ctx, s.client, s.pair(l.ref), l.ref.Key, milliseconds(l.lifetime)).StringSlice()
	}
	ctx, span := tracing.Call(ctx, "redis", "load session")
	values, err := s.loads.Do(ctx, l)
	span.End(tracing.Failed(err))
	return values, err
}

// loadAll sends one pipeline, and a second one when Redis does not have the script.
func (s *Store) loadAll(ctx context.Context, calls []*batch.Call[load, []string]) {
	replies := s.send(ctx, calls)
	if slices.ContainsFunc(replies, func(r *redis.Cmd) bool { return redis.HasErrorPrefix(r.Err(), "NOSCRIPT") }) {
		if err := s.scripts.load.Load(ctx, s.client).Err(); err == nil {
			replies = s.send(ctx, calls)
		}
	}
	for i, c := range calls {
		c.Value, c.Err = replies[i].StringSlice()
	}
}

func (s *Store) send(ctx context.Context, calls []*batch.Call[load, []string]) []*redis.Cmd {
	pipe := s.client.Pipeline()
	replies := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		replies[i] = s.scripts.load.EvalSha(ctx, pipe, s.pair(c.Key.ref), c.Key.ref.Key, milliseconds(c.Key.lifetime))
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	return replies
}

package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/batch"
	"github.com/pforte/pforte/pkg/tracing"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// tripTimeout bounds one trip of loads that travel together, retries included.
const tripTimeout = 4 * time.Second

// load is what one Load asks for.
type load struct {
	ref      session.Ref
	lifetime time.Duration
}

// Load implements session.Store. It is asked for with every request, and what
// costs most of it is sending and receiving: loads that come at once share that.
// In a Cluster each goes alone, so that a node that is away holds up nobody whose
// session is on another.
func (s *Store) Load(ctx context.Context, ref session.Ref, lifetime time.Duration) (session.Session, error) {
	if s.loads != nil {
		ctx, span := tracing.Call(ctx, "redis", "load session")
		loaded, err := s.loads.Do(ctx, load{ref, lifetime})
		span.End(failure(err))
		if err != nil && ctx.Err() != nil {
			err = failed("load session", err)
		}
		return loaded, err
	}
	return loaded(ref, s.scripts.load.Run(ctx, s.client, s.pair(ref), ref.Key, milliseconds(lifetime)))
}

// failure names a fault for a span. That there is no such session is none.
func failure(err error) string {
	if errors.Is(err, session.ErrNotFound) {
		return ""
	}
	return tracing.Failed(err)
}

// loadAll makes one trip, and a second one when Redis does not know the script.
func (s *Store) loadAll(ctx context.Context, calls []*batch.Call[load, session.Session]) {
	replies := s.ask(ctx, calls)
	if slices.ContainsFunc(replies, func(r *redis.Cmd) bool { return redis.HasErrorPrefix(r.Err(), "NOSCRIPT") }) {
		if err := s.scripts.load.Load(ctx, s.client).Err(); err == nil {
			replies = s.ask(ctx, calls)
		}
	}
	for i, c := range calls {
		c.Value, c.Err = loaded(c.Key.ref, replies[i])
	}
}

func (s *Store) ask(ctx context.Context, calls []*batch.Call[load, session.Session]) []*redis.Cmd {
	pipe := s.client.Pipeline()
	replies := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		replies[i] = s.scripts.load.EvalSha(ctx, pipe, s.pair(c.Key.ref), c.Key.ref.Key, milliseconds(c.Key.lifetime))
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	return replies
}

func loaded(ref session.Ref, reply *redis.Cmd) (session.Session, error) {
	fields, err := reply.StringSlice()
	if err != nil {
		return session.Session{}, failed("load session", err)
	}
	if len(fields) == 0 {
		return session.Session{}, session.ErrNotFound
	}
	return decode(ref, fields)
}

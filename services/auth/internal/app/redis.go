package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/tracing"
)

// Bounds on Redis, for requests that meet one that hangs. Those of go-redis are several times as long.
const (
	redisTimeout        = time.Second // to connect, to read, to write, to wait for a connection
	redisRetries        = 1
	redisCommandTimeout = 2 * time.Second
	// redisTopologyAge is how old what is known of a Cluster's nodes may be. A node
	// that is down cannot name its successor, and by default go-redis reads the
	// state from the others once a minute.
	redisTopologyAge = time.Second
)

// openRedis returns a client, which does not connect yet.
func openRedis(o *redis.UniversalOptions, commands *prometheus.HistogramVec) redis.UniversalClient {
	o.ClientName = "pforte-auth"
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = redisTimeout, redisTimeout, redisTimeout, redisTimeout
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = redisRetries, redisRetries, true
	var client redis.UniversalClient
	if o.IsClusterMode {
		cluster := o.Cluster()
		cluster.ClusterStateReloadInterval = redisTopologyAge
		client = redis.NewClusterClient(cluster)
	} else {
		client = redis.NewUniversalClient(o)
	}
	client.AddHook(redisHook{commands})
	return client
}

// redisHook bounds, measures and traces each command, with all its tries and
// redirections. Keys and arguments are left out: they name sessions.
type redisHook struct{ durations *prometheus.HistogramVec }

func (redisHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.run(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.run(ctx, "pipeline", func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

// run runs a command. A missing value (redis.Nil) and a script that has to be sent whole (NOSCRIPT)
// count as no failure.
func (h redisHook) run(ctx context.Context, name string, command func(context.Context) error) error {
	ctx, span := tracing.Call(ctx, "redis", name)
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, redisCommandTimeout)
	defer cancel()
	err := command(bounded)
	outcome, failure := "ok", ""
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"):
	case errors.Is(err, context.Canceled):
		outcome = "canceled"
	default:
		outcome, failure = "error", "error"
	}
	span.End(failure)
	h.durations.WithLabelValues(name, outcome).Observe(time.Since(began).Seconds())
	return err
}

// redisLog receives what the Redis client itself logs. Without it the client would
// write that to standard error.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}

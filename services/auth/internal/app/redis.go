package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/config"
)

// How long Redis may take. Nobody waits 5 seconds for an answer because it hangs;
// go-redis alone would try for 20 seconds, and longer on a Cluster.
const (
	redisDialTimeout    = time.Second
	redisIOTimeout      = time.Second
	redisRetries        = 1
	redisCommandTimeout = 2 * time.Second
	// redisTopologyAge is how old a Cluster's word about its nodes may be. A node
	// that is away cannot tell who took over, and go-redis alone asks the others
	// once a minute.
	redisTopologyAge = time.Second
)

// openRedis returns a client for one server, Sentinels or a Cluster. It does not
// connect yet.
func openRedis(r config.Redis, watch *storeMetrics) redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs: r.Addrs, DB: r.DB, Username: r.Username, Password: r.Password,
		MasterName: r.Master, SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		IsClusterMode: r.Cluster, ClientName: "pforte-auth",
		DialTimeout: redisDialTimeout, ReadTimeout: redisIOTimeout, WriteTimeout: redisIOTimeout, PoolTimeout: redisIOTimeout,
		MaxRetries: redisRetries, DialerRetries: redisRetries, ContextTimeoutEnabled: true,
	}
	if r.TLS {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	client := connect(options)
	client.AddHook(redisBound{})
	client.AddHook(redisWatch{watch})
	return client
}

func connect(options *redis.UniversalOptions) redis.UniversalClient {
	if !options.IsClusterMode {
		return redis.NewUniversalClient(options)
	}
	cluster := options.Cluster()
	cluster.ClusterStateReloadInterval = redisTopologyAge
	return redis.NewClusterClient(cluster)
}

// redisBound bounds each command, with all its tries and redirections.
type redisBound struct{}

// DialHook implements redis.Hook.
func (redisBound) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (redisBound) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, redisCommandTimeout)
		defer cancel()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (redisBound) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, redisCommandTimeout)
		defer cancel()
		return next(ctx, cmds)
	}
}

// redisLog lets what the client says by itself, which goes to standard error
// otherwise, into our log.
type redisLog struct{ log *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, args...))
}

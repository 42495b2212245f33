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

// Bounds on Redis, so that no request waits 5 seconds because it hangs. With
// go-redis's own it would be 20 seconds, and more on a Cluster.
const (
	redisDialTimeout    = time.Second
	redisIOTimeout      = time.Second
	redisRetries        = 1
	redisCommandTimeout = 2 * time.Second
	// redisTopologyAge is how old what is known of a Cluster's nodes may be. A node
	// that is down cannot name its successor, and go-redis alone reads the state
	// from the others once a minute.
	redisTopologyAge = time.Second
)

// openRedis returns a client for one server, Sentinels or a Cluster. It does not
// connect yet.
func openRedis(r config.Redis, metrics *storeMetrics) redis.UniversalClient {
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
	client.AddHook(redisHook{metrics})
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

// redisLog receives what the Redis client logs itself, to standard error by
// default.
type redisLog struct{ log *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}

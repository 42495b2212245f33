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

// How long Redis may take. A request asks it a few times at most and is answered
// within 5 seconds, so a Redis that hangs must be given up soon; go-redis alone
// would try for 20 seconds.
const (
	redisDialTimeout = time.Second
	redisIOTimeout   = 1500 * time.Millisecond
	redisRetries     = 1
)

// openRedis returns a client for one server, Sentinels or a Cluster. It does not
// connect yet.
func openRedis(r config.Redis) redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs: r.Addrs, DB: r.DB, Username: r.Username, Password: r.Password,
		MasterName: r.Master, SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		IsClusterMode: r.Cluster, ClientName: "pforte-auth",
		DialTimeout: redisDialTimeout, ReadTimeout: redisIOTimeout, WriteTimeout: redisIOTimeout, PoolTimeout: redisIOTimeout,
		MaxRetries: redisRetries, ContextTimeoutEnabled: true,
	}
	if r.TLS {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return redis.NewUniversalClient(options)
}

// redisLog lets what the client says by itself, which goes to standard error
// otherwise, into our log.
type redisLog struct{ log *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, args...))
}

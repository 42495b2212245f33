package redisstore

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/session"
)

const (
	sweepStep  = 500                  // keys of one SCAN, below a millisecond of Redis's time
	sweepPause = 2 * time.Millisecond // between two steps, for requests
)

// Sweep implements session.Store. Several processes may run it concurrently.
func (s *Store) Sweep(ctx context.Context) (session.Swept, error) {
	var counted counts
	var err error
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return s.sweepNode(ctx, node, &counted)
		})
	} else {
		err = s.sweepNode(ctx, s.client, &counted)
	}
	swept := session.Swept{Expired: int(counted.expired.Load()), Live: int(counted.live.Load())}
	if err != nil {
		return swept, failed("sweep sessions", err)
	}
	return swept, nil
}

// counts are of all nodes, which are swept concurrently.
type counts struct{ expired, live atomic.Int64 }

func (s *Store) sweepNode(ctx context.Context, node redis.Cmdable, counted *counts) error {
	now, err := node.Time(ctx).Result()
	if err != nil {
		return err
	}
	expired := strconv.FormatInt(now.UnixMilli(), 10)
	for cursor := uint64(0); ; {
		var sets []string
		sets, cursor, err = node.Scan(ctx, cursor, s.app+":{u*}:sessions", sweepStep).Result()
		if err != nil {
			return err
		}
		if err := removeExpired(ctx, node, sets, expired, counted); err != nil || cursor == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sweepPause):
		}
	}
}

func removeExpired(ctx context.Context, node redis.Cmdable, sets []string, expired string, counted *counts) error {
	if len(sets) == 0 {
		return nil
	}
	removed, left := make([]*redis.IntCmd, len(sets)), make([]*redis.IntCmd, len(sets))
	_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, set := range sets {
			removed[i] = pipe.ZRemRangeByScore(ctx, set, "-inf", expired)
			left[i] = pipe.ZCard(ctx, set)
		}
		return nil
	})
	for i := range sets {
		counted.expired.Add(removed[i].Val())
		counted.live.Add(left[i].Val())
	}
	return err
}

package redisstore

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// sweepStep is how many keys one SCAN looks at: below a millisecond of
	// Redis's time.
	sweepStep = 500
	// sweepPause is what requests get between two steps.
	sweepPause = 2 * time.Millisecond
)

// Sweep implements session.Store. It may run in several processes at once.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	var swept atomic.Int64
	var err error
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return s.sweepNode(ctx, node, &swept)
		})
	} else {
		err = s.sweepNode(ctx, s.client, &swept)
	}
	if err != nil {
		return int(swept.Load()), failed("sweep sessions", err)
	}
	return int(swept.Load()), nil
}

func (s *Store) sweepNode(ctx context.Context, node redis.Cmdable, swept *atomic.Int64) error {
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
		if err := removeExpired(ctx, node, sets, expired, swept); err != nil || cursor == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sweepPause):
		}
	}
}

func removeExpired(ctx context.Context, node redis.Cmdable, sets []string, expired string, swept *atomic.Int64) error {
	if len(sets) == 0 {
		return nil
	}
	removed := make([]*redis.IntCmd, len(sets))
	_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, set := range sets {
			removed[i] = pipe.ZRemRangeByScore(ctx, set, "-inf", expired)
		}
		return nil
	})
	for _, cmd := range removed {
		swept.Add(cmd.Val())
	}
	return err
}

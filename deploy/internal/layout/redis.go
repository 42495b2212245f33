package layout

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// startRedisWithin is enough to load many sessions.
const startRedisWithin = 20 * time.Second

// StartRedis starts redis-server where it is installed, and else a stand-in in
// this process, which keeps nothing when it stops. It returns which.
func (l Layout) StartRedis(ctx context.Context, programs *stack.Stack) (which string, err error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path + ", kept in " + l.Path("redis"), programs.Start(ctx, startRedisWithin, l.RedisServer(path))
	}
	standIn := miniredis.NewMiniRedis()
	if err := standIn.StartAddr(l.Redis); err != nil {
		return "", fmt.Errorf("redis: %w", err)
	}
	go expire(ctx, standIn)
	return "a stand-in inside the launcher: redis-server is not installed, so sessions end with it", nil
}

// expire expires the stand-in's keys as a server does: its clock stands still by
// itself.
func expire(ctx context.Context, standIn *miniredis.Miniredis) {
	defer standIn.Close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			standIn.FastForward(now.Sub(last))
			last = now
		}
	}
}

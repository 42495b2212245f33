package app

import (
	"context"
	"log/slog"
	"time"
)

// Pauses between tries to reach a store at start.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// waitFor tries until it succeeds, fails for good, or ctx ends, and says what it
// waits for. try tells with its second result whether to come back.
func waitFor(ctx context.Context, log *slog.Logger, what string, try func(context.Context) (err error, later bool)) error {
	started := time.Now()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err, later := try(ctx)
		if err == nil {
			if waited := time.Since(started); waited > firstPause {
				log.InfoContext(ctx, "found "+what, "after", waited.Round(time.Millisecond))
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !later {
			return err
		}
		log.WarnContext(ctx, "waiting for "+what, "error", err, "next_try_in", pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

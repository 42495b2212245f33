package ratelimit

import "context"

// Repeat counts the attempt of a decision again, as after a reply that was lost.
func (l *Limiter) Repeat(ctx context.Context, d Decision) (Decision, error) {
	return l.count(ctx, d.attempt)
}

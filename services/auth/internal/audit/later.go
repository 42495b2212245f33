package audit

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// laterQueue bounds how many pieces of work wait.
	laterQueue = 256
	// laterTimeout bounds one piece of work.
	laterTimeout = 5 * time.Second
	// laterDrain is for how long Drain begins further work.
	laterDrain = 5 * time.Second
)

// later queues work that no answer waits for, such as the audit rows of logins, so that a full disk does not keep
// people out, and requests for a new password, so that the answer tells nothing about the name.
type later struct {
	queue   chan func()
	dropped atomic.Uint64
}

// Later queues work, which is called with the values of ctx but does not end with it. When the
// queue is full the work is dropped and counted.
func (l *later) Later(ctx context.Context, work func(context.Context)) {
	ctx = context.WithoutCancel(ctx)
	select {
	case l.queue <- func() {
		ctx, cancel := context.WithTimeout(ctx, laterTimeout)
		defer cancel()
		work(ctx)
	}:
	default:
		l.dropped.Add(1)
	}
}

// work does the queued work until ctx ends.
func (l *later) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case work := <-l.queue:
			work()
		}
	}
}

// drain does what is queued now. It begins nothing more once more returns false.
func (l *later) drain(more func() bool) {
	for more() {
		select {
		case work := <-l.queue:
			work()
		default:
			return
		}
	}
}

// Dropped returns how many pieces of work were dropped because the queue was full.
func (l *later) Dropped() uint64 { return l.dropped.Load() }

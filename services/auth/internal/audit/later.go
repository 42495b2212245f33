package audit

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// laterQueue bounds what waits to be done beside the requests.
	laterQueue = 256
	// laterTimeout bounds one piece of that work.
	laterTimeout = 5 * time.Second
	// laterDrain is for how long Drain begins further work.
	laterDrain = 5 * time.Second
)

// later is work that no answer waits for, such as the audit rows of logins, so that a full disk does not keep people
// out, and requests for a new password, so that the answer tells nothing about the name.
type later struct {
	queue   chan func()
	now     func() time.Time
	dropped atomic.Uint64
}

// Later queues work in the values of a context. When the queue is full it is dropped and
// counted.
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

// Work does what requests left to do, until ctx ends. Drain does the
// rest.
func (l *later) Work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case work := <-l.queue:
			work()
		}
	}
}

// Drain does what is queued now, at the end of the process.
func (l *later) Drain() {
	for begin := l.now(); l.now().Sub(begin) < laterDrain; {
		select {
		case work := <-l.queue:
			work()
		default:
			return
		}
	}
}

// Dropped returns how much work was dropped because too much was queued.
func (l *later) Dropped() uint64 { return l.dropped.Load() }

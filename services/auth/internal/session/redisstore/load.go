package redisstore

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/tracing"

	"github.com/pforte/pforte/services/auth/internal/session"
)

const (
	// pipelineTimeout bounds one pipeline of loads, retries included.
	pipelineTimeout = 4 * time.Second
	// maxPipelines is how many are under way at once. The fewer, the more loads
	// share one; with one alone, a connection that hangs would delay every session.
	maxPipelines = 2
	// maxPipeline bounds the loads of a pipeline, maxLoading those in the queue for one. Further ones wait for a
	// place in it.
	maxPipeline = 256
	maxLoading  = 4096
)

// pipelines sends concurrent loads together. It has nothing to close.
type pipelines struct {
	waiting chan *load
	running chan struct{} // one element for each under way
}

// load is one Load or LoadHost that waits: its arguments, and its result once done is closed.
type load struct {
	ref       session.Ref
	lifetimes session.Lifetimes
	// ofHost are the host and the hash of its secret of a LoadHost, else none.
	ofHost []any

	ctx    context.Context //nolint:containedctx // of the caller, who may have left
	values []string
	err    error
	done   chan struct{}
}

// Load implements session.Store. Most of its cost is sending and receiving, which concurrent loads share in one
// pipeline. In a Cluster each is sent alone, so that a node that is away does not delay sessions on other nodes.
func (s *store) Load(ctx context.Context, ref session.Ref, lifetimes session.Lifetimes) (session.Session, error) {
	return s.load(ctx, &load{ref: ref, lifetimes: lifetimes})
}

func (s *store) load(ctx context.Context, l *load) (session.Session, error) {
	values, err := s.values(ctx, l)
	if err != nil {
		return session.Session{}, failed("load session", err)
	}
	if len(values) == 0 {
		return session.Session{}, session.ErrNotFound
	}
	return decode(l.ref, values)
}

// args returns those of lua/load.lua.
func (l *load) args() []any {
	return append([]any{
		l.ref.Key, renewal(l.lifetimes.Any), renewal(l.lifetimes.Own), renewal(l.lifetimes.Shared),
	}, l.ofHost...)
}

// values returns what lua/load.lua does. Where loads share pipelines, the end of ctx ends only the wait for one, which
// continues for the other loads.
func (s *store) values(ctx context.Context, l *load) (values []string, err error) {
	if s.loads == nil {
		return loadScript.Run(ctx, s.client, s.pair(l.ref), l.args()...).StringSlice()
	}
	ctx, span := tracing.Call(ctx, "redis", "load session")
	defer func() { span.End(tracing.Failed(err)) }()
	l.ctx, l.done = ctx, make(chan struct{})
	select {
	case s.loads.waiting <- l:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.sendLoads() //nolint:contextcheck // a pipeline carries loads of many callers
	select {
	case <-l.done:
		return l.values, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sendLoads starts sending what waits, unless maxPipelines are under way.
func (s *store) sendLoads() {
	select {
	case s.loads.running <- struct{}{}:
	default:
		return
	}
	go func() {
		for batch := s.loads.next(); len(batch) > 0; batch = s.loads.next() {
			s.loadAll(batch)
		}
		<-s.loads.running
		if len(s.loads.waiting) > 0 { // queued after next and before the line above
			s.sendLoads()
		}
	}()
}

// next returns the loads that wait and whose callers have not left. It first yields
// the processor to goroutines that are about to load.
func (p *pipelines) next() (batch []*load) {
	runtime.Gosched()
	for len(batch) < maxPipeline {
		select {
		case l := <-p.waiting:
			if l.ctx.Err() == nil {
				batch = append(batch, l)
			}
		default:
			return batch
		}
	}
	return batch
}

// loadAll sends one pipeline, and a second one when Redis does not have the script.
func (s *store) loadAll(batch []*load) {
	ctx, cancel := context.WithTimeout(context.Background(), pipelineTimeout)
	defer cancel()
	replies := make([]*redis.Cmd, len(batch))
	send := func() {
		pipe := s.client.Pipeline()
		for i, l := range batch {
			replies[i] = loadScript.EvalSha(ctx, pipe, s.pair(l.ref), l.args()...)
		}
		_, _ = pipe.Exec(ctx) // each reply has its own error
	}
	send()
	if slices.ContainsFunc(replies, func(r *redis.Cmd) bool { return redis.HasErrorPrefix(r.Err(), "NOSCRIPT") }) &&
		loadScript.Load(ctx, s.client).Err() == nil {
		send()
	}
	for i, l := range batch {
		l.values, l.err = replies[i].StringSlice()
		close(l.done)
	}
}

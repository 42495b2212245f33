package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// do makes the calls, at most maxBatch of them, in one exchange where the node
// allows it. Results and errors of single calls are in the calls; the error
// returned is that of the exchange itself, with which the calls mean nothing.
func (e *endpoint) do(ctx context.Context, l *lease, calls ...*call) error {
	if len(calls) == 1 || e.wantsSingles() {
		return e.singles(ctx, l, calls)
	}
	err := e.batch(ctx, l, calls)
	if errors.Is(err, errBatchRefused) {
		e.rememberSingles()
		return e.singles(ctx, l, calls)
	}
	if err != nil {
		return err
	}
	var open []*call
	for _, c := range calls {
		if !c.done {
			open = append(open, c)
		}
	}
	if len(open) == 0 {
		return nil
	}
	e.rememberSingles() // it answers batches by halves
	return e.singles(ctx, l, open)
}

// batch makes one exchange for all calls.
func (e *endpoint) batch(ctx context.Context, l *lease, calls []*call) error {
	body, err := e.exchange(ctx, l, calls, true)
	if err != nil {
		return err
	}
	replies, batch, err := decodeReplies(body)
	switch {
	case err != nil:
		return errGarbage
	case !batch && replies[0].err == nil:
		return fmt.Errorf("%w: %w", errBatchRefused, chain.ErrUnavailable)
	case !batch:
		if err := e.limited([]*call{{err: replies[0].err.reason()}}); err != nil {
			return err
		}
		return fmt.Errorf("%w: %w", errBatchRefused, chain.ErrUnavailable)
	}
	for _, r := range replies {
		settle(calls, r) // strays and repeats are ignored; what is open is asked again
	}
	return e.limited(calls)
}

// limited tells the circuit about a rate limit that came as an answer.
func (e *endpoint) limited(calls []*call) error {
	for _, c := range calls {
		if errors.Is(c.err, chain.ErrRateLimited) {
			err := chain.WithRetryAfter(c.err, retryAfter(nil, e.now()))
			e.circuit.record(e.now(), err)
			return err
		}
	}
	return nil
}

// singles makes each call by itself, side by side.
func (e *endpoint) singles(ctx context.Context, l *lease, calls []*call) error {
	errs := make([]error, len(calls))
	var group sync.WaitGroup
	for i, c := range calls {
		group.Go(func() { errs[i] = guarded(e.log, func() error { return e.single(ctx, l, c) }) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *endpoint) single(ctx context.Context, l *lease, c *call) error {
	c.done, c.result, c.err = false, nil, nil
	body, err := e.exchange(ctx, l, []*call{c}, false)
	if err != nil {
		return err
	}
	replies, batch, err := decodeReplies(body)
	if err != nil || batch {
		return errGarbage
	}
	if r := replies[0]; r.err != nil {
		r.id = "1" // errors may come without an id
		settle([]*call{c}, r)
		return e.limited([]*call{c})
	}
	if !settle([]*call{c}, replies[0]) {
		return errGarbage
	}
	return nil
}

var errGarbage = fmt.Errorf("answer is not JSON-RPC: %w", chain.ErrUnavailable)

// exchange sends the calls and keeps the endpoint's record of how it went.
func (e *endpoint) exchange(ctx context.Context, l *lease, calls []*call, batch bool) ([]byte, error) {
	request, err := encodeCalls(calls, batch)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", calls[0].method, chain.ErrUnavailable)
	}
	method := methodOf(calls)
	ctx, span := tracing.Call(ctx, "rpc", method)
	start := e.now()
	body, err := e.post(ctx, request, l)
	e.observe(method, e.now().Sub(start), err)
	span.Set("node", e.name)
	span.End(tracing.Failed(err))
	return body, err
}

// methodOf names an exchange.
func methodOf(calls []*call) string {
	if len(calls) > 1 {
		return "batch"
	}
	return calls[0].method
}

// observe counts the exchange for the circuit and for the metrics. A caller that
// went away says nothing about the node.
func (e *endpoint) observe(method string, took time.Duration, err error) {
	e.hooks.RPC(e.name, method, took, err)
	e.circuit.record(e.now(), err)
}

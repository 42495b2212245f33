package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Sizes of JSON bodies.
const (
	maxBody    = 64 << 20 // one answer, never more
	maxFetch   = 2 * maxBody
	blockShare = 8 << 20 // what the fetch of a block reserves
	smallShare = 1 << 20 // what a look at one transaction reserves
	headBody   = 6 << 20 // an answer about heads: three blocks of 25,000 transaction hashes; needs no reservation
)

// budget bounds the bytes that all fetches together hold on to. Each reserves a
// share before it asks. The few that outgrow their share go on one at a time
// through a single large lane, so that nobody waits for bytes while holding some
// that others wait for, except for that lane, whose holder waits for nothing.
type budget struct {
	shares *semaphore.Weighted
	lane   *semaphore.Weighted
}

func newBudget(bytes int64) *budget {
	return &budget{shares: semaphore.NewWeighted(max(bytes, blockShare)), lane: semaphore.NewWeighted(1)}
}

// lease is a fetch's part of the budget. Its calls may run side by side, hence
// the mutex. A nil lease bounds an answer to headBody.
type lease struct {
	budget *budget
	share  int64
	state  chan leaseState // holds one value: a mutex that a context can leave
}

type leaseState struct {
	used  int64
	large bool
}

// reserve waits for a share of the budget.
func (b *budget) reserve(ctx context.Context, share int64) (*lease, error) {
	if err := b.shares.Acquire(ctx, share); err != nil {
		return nil, errBusy
	}
	l := &lease{budget: b, share: share, state: make(chan leaseState, 1)}
	l.state <- leaseState{}
	return l, nil
}

func (l *lease) release() {
	if (<-l.state).large {
		l.budget.lane.Release(1)
	}
	l.budget.shares.Release(l.share)
}

// grow accounts for n more bytes, waiting for the large lane when they exceed
// the share.
func (l *lease) grow(ctx context.Context, n int64) error {
	var state leaseState
	select {
	case state = <-l.state:
	case <-ctx.Done():
		return errBusy
	}
	defer func() { l.state <- state }()
	state.used += n
	if state.used > maxFetch {
		return errTooLarge
	}
	if state.used <= l.share || state.large {
		return nil
	}
	if err := l.budget.lane.Acquire(ctx, 1); err != nil {
		return errBusy
	}
	state.large = true
	return nil
}

// Neither is a sign of a node in trouble.
var (
	errTooLarge = fmt.Errorf("answer is too large: %w", chain.ErrUnavailable)
	errBusy     = fmt.Errorf("no memory for the answer in time: %w", chain.ErrUnavailable)
)

// readBody reads an answer piece by piece, so that no more memory is taken than
// was accounted for.
func readBody(ctx context.Context, from io.Reader, l *lease) ([]byte, error) {
	limit := int64(maxBody)
	if l == nil {
		limit = headBody
	}
	const piece = 64 << 10
	var body bytes.Buffer
	for {
		if l != nil {
			if err := l.grow(ctx, piece); err != nil {
				return nil, err
			}
		}
		n, err := io.CopyN(&body, from, piece)
		if l != nil && n < piece {
			l.shrink(piece - n)
		}
		switch {
		case int64(body.Len()) > limit:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return body.Bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}

func (l *lease) shrink(n int64) {
	state := <-l.state
	state.used -= n
	l.state <- state
}

package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// pool is the endpoints of one chain.
type pool struct {
	endpoints []*endpoint
	now       func() time.Time
	timeout   time.Duration
}

// order gives the endpoints that may be asked now, best first: as configured,
// but those that lately told something wrong, or nothing in time, last.
func (p *pool) order() []*endpoint {
	now := p.now()
	return slices.DeleteFunc(p.byTrust(), func(e *endpoint) bool { return e.isWrongChain() || !e.circuit.closed(now) })
}

// byTrust gives all endpoints, best first: as configured, but after them those
// that told something wrong or nothing in time, and then those that want rest.
func (p *pool) byTrust() []*endpoint {
	now := p.now()
	rank := func(e *endpoint) int {
		switch {
		case !e.circuit.closed(now):
			return 2
		case e.suspected():
			return 1
		default:
			return 0
		}
	}
	ranks := make(map[*endpoint]int, len(p.endpoints))
	for _, e := range p.endpoints {
		ranks[e] = rank(e)
	}
	list := slices.Clone(p.endpoints)
	slices.SortStableFunc(list, func(a, b *endpoint) int { return ranks[a] - ranks[b] })
	return list
}

// none says why no endpoint may be asked.
func (p *pool) none() error {
	if p.allWrong() {
		return fmt.Errorf("every node: %w", chain.ErrWrongChain)
	}
	now, limited, soonest := p.now(), false, time.Minute
	for _, e := range p.endpoints {
		if e.isWrongChain() {
			continue
		}
		opens, byLimit := e.circuit.opens()
		limited = limited || byLimit
		soonest = min(soonest, max(opens.Sub(now), time.Second))
	}
	if limited {
		return chain.WithRetryAfter(chain.ErrRateLimited, soonest)
	}
	return chain.WithRetryAfter(chain.ErrUnavailable, soonest)
}

func (p *pool) allWrong() bool {
	return !slices.ContainsFunc(p.endpoints, func(e *endpoint) bool { return !e.isWrongChain() })
}

// attempts is how many endpoints one question is put to: one retry elsewhere.
const attempts = 2

// try puts a question to an endpoint and, when it fails, once more to another
// one. With a single endpoint it is asked again, unless it is slow or wants
// rest: a balancer may have another node behind it. Of two errors the one that
// tells more about the chain is returned.
func (p *pool) try(ctx context.Context, ask func(*endpoint) (*evm.ProvenBlock, error)) (reading, error) {
	e := p.next(nil, nil)
	if e == nil {
		return reading{}, p.none()
	}
	var err error
	for left := attempts; ; {
		block, failure := ask(e)
		if failure == nil {
			return reading{block, e}, nil
		}
		failure = fmt.Errorf("%s: %w", e.name, failure)
		if isAny(failure, errTimeout, chain.ErrIntegrity, chain.ErrInconsistent, chain.ErrNotCanonical, chain.ErrQuorum) {
			e.suspect()
		}
		err = telling(err, failure)
		waits := isAny(failure, chain.ErrNotFinalized, chain.ErrFinalityUnavailable) && !errors.Is(failure, errElsewhere)
		if left--; left == 0 || ctx.Err() != nil || waits {
			return reading{}, err
		}
		if e = p.next(e, failure); e == nil {
			return reading{}, err
		}
	}
}

// next gives the endpoint to ask: not the last one, unless there is no other and
// it may answer otherwise at once.
func (p *pool) next(last *endpoint, failure error) *endpoint {
	now := p.now()
	for _, e := range p.order() {
		if e != last && e.circuit.admit(now, p.timeout) {
			return e
		}
	}
	if last == nil || len(p.endpoints) > 1 || !last.circuit.closed(now) || isAny(failure, errTimeout, errTooLarge,
		chain.ErrRateLimited, chain.ErrWrongChain, chain.ErrQuorum, chain.ErrUnsupportedType,
		chain.ErrHeaderUnverifiable, chain.ErrHistoryPruned) {
		return nil
	}
	return last
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// telling chooses the error to report: the later one, unless only the earlier
// came from an answer, or says that the nodes disagree.
func telling(earlier, later error) error {
	mute := isAny(later, chain.ErrUnavailable, chain.ErrRateLimited, chain.ErrWrongChain)
	if earlier != nil && (mute && !errors.Is(earlier, chain.ErrUnavailable) || errors.Is(earlier, chain.ErrQuorum)) {
		return earlier
	}
	return later
}

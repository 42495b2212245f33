package payment

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ledgerTimeout bounds a write that must not be left out because a caller went.
const ledgerTimeout = 15 * time.Second

// sell works for a claimed payment and settles last.
func (g *Gate) sell(ctx context.Context, f *flight, o Order, r Record) (Sale, error) {
	call, err := o.Offer.call(o.Payment)
	if err != nil {
		g.release(ctx, r)
		return Sale{}, err
	}
	refund, answer, err := g.workAndVerify(ctx, o, call)
	if err != nil {
		g.release(ctx, r)
		return Sale{}, err
	}
	g.At(Worked)
	sale, err := g.settle(ctx, f, o, r, call, answer)
	if isFree(err) {
		refund()
	}
	return sale, err
}

// release forgets the claim, so that the payment may be used again. What cannot
// be written now is owed.
func (g *Gate) release(ctx context.Context, r Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	if err := g.Ledger.Release(ctx, r.Key, g.owner); err != nil {
		g.Log.Error("cannot release a claim", "error", err)
		g.owe(r.Key, debt{until: r.Deadline, write: func(ctx context.Context) error { return g.Ledger.Release(ctx, r.Key, g.owner) }})
	}
}

// workAndVerify does the work beside the facilitator's check. A payment that is
// not good outweighs work that failed: what the work finds is for who can pay.
// The attempt that it takes from the payer is refunded by who settles.
func (g *Gate) workAndVerify(ctx context.Context, o Order, call []byte) (refund func(), answer []byte, err error) {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	var workErr error
	beside.Go(func() {
		working, done := context.WithTimeout(both, g.WorkTimeout)
		defer done()
		answer, workErr = work(working, o)
	})
	verifyErr := g.verify(both, o, call)
	if verifyErr != nil {
		cancel()
	}
	beside.Wait()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if verifyErr != nil {
		return nil, nil, verifyErr
	}
	// Only now is it certain that the payer made the attempt.
	if refund, err = g.attempts.spend("payer "+o.Payment.Key.Payer, g.AttemptsPerPayer); err != nil {
		return nil, nil, err
	}
	return refund, answer, workErr
}

// work runs the order's work; a panic is an error of it.
func work(ctx context.Context, o Order) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, err = nil, panicError(p)
		}
	}()
	return o.Work(ctx)
}

func (g *Gate) verify(ctx context.Context, o Order, call []byte) error {
	ctx, cancel := context.WithTimeout(ctx, g.VerifyTimeout)
	defer cancel()
	answer, err := g.Facilitator.Verify(ctx, call)
	err = checkVerified(answer, err, o.Payment)
	if errors.Is(err, ErrLimit) {
		g.quota.pause(g.Now())
	}
	return err
}

// settle reserves a settlement, writes that money may move from here on, and
// asks the facilitator.
func (g *Gate) settle(ctx context.Context, f *flight, o Order, r Record, call, answer []byte) (Sale, error) {
	if err := o.Offer.judgeWindow(o.Payment, g.Now(), settleMargin); err != nil {
		g.release(ctx, r)
		return Sale{}, err
	}
	if !f.pin() {
		g.release(ctx, r)
		return Sale{}, ctx.Err()
	}
	ctx = context.WithoutCancel(ctx)
	s := Settlement{
		Request: o.Request, Answer: answer, Month: Month(g.Now()), Limit: g.FreeSettlements,
		Deadline: g.Now().Add(2*g.SettleTimeout + time.Minute),
	}
	twin, err := g.begin(ctx, r, s)
	if err != nil || twin != nil {
		g.quota.stale()
		g.release(ctx, r)
	}
	switch {
	case errors.Is(err, ErrLost):
		return Sale{}, ErrInFlight
	case errors.Is(err, ErrLimit):
		return Sale{}, ErrLimit
	case err != nil:
		return Sale{}, ledgerFault(err)
	case twin != nil && twin.Request != o.Request:
		return Sale{}, ErrIdentifier
	case twin != nil:
		return g.resume(ctx, f, o, *twin)
	}
	g.reserved(s.Month)
	g.At(Begun)
	r.State, r.Answer, r.Month = Settling, s.Answer, s.Month
	return g.askToSettle(ctx, r, call)
}

func (g *Gate) begin(ctx context.Context, r Record, s Settlement) (*Record, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	return g.Ledger.Begin(ctx, r.Key, g.owner, s)
}

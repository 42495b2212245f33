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
func (g *Gate) sell(ctx context.Context, f *flight, c *call, r Record) (Sale, error) {
	request, err := c.Offer.call(c.Payment)
	if err != nil {
		g.release(ctx, r)
		return Sale{}, err
	}
	answer, err := g.work(ctx, c, request)
	if err != nil {
		g.release(ctx, r)
		return Sale{}, err
	}
	g.At(Worked)
	return g.settle(ctx, f, c, r, request, answer)
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

// work makes the answer for a payment that is the payer's for certain: after the
// facilitator's yes, or beside its check where the payer's own key signed and there
// is room for that.
func (g *Gate) work(ctx context.Context, c *call, request []byte) (answer []byte, err error) {
	if err := g.spendPayer(c); err != nil {
		return nil, err
	}
	if !c.checked {
		beside, done, err := g.mayWorkBeside(ctx, c)
		if err != nil {
			return nil, err
		}
		defer done()
		if beside {
			c.worked = true
			return g.workAndVerify(ctx, c.Order, request)
		}
		if err := g.verify(ctx, c.Order, request); err != nil {
			return nil, err
		}
	}
	c.worked = true
	working, done := context.WithTimeout(ctx, g.WorkTimeout)
	defer done()
	if c.plain {
		answer, err = work(working, c.Order)
	} else {
		answer, err = g.workForStranger(working, c)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answer, err
}

// workAndVerify does the work beside the facilitator's check. A payment that is
// not good outweighs work that failed: what the work finds is for who can pay.
func (g *Gate) workAndVerify(ctx context.Context, o Order, request []byte) (answer []byte, err error) {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	var workErr error
	beside.Go(func() {
		working, done := context.WithTimeout(both, g.WorkTimeout)
		defer done()
		answer, workErr = work(working, o)
	})
	verifyErr := g.verify(both, o, request)
	if verifyErr != nil {
		cancel()
	}
	beside.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if verifyErr != nil {
		return nil, verifyErr
	}
	return answer, workErr
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
	checked := checkVerified(answer, err, o.Payment)
	if errors.Is(checked, ErrLimit) {
		return &PausedError{After: g.quota.pause(g.Now(), err)}
	}
	return checked
}

// settle reserves a settlement, writes that money may move from here on, and
// asks the facilitator.
func (g *Gate) settle(ctx context.Context, f *flight, c *call, r Record, request, answer []byte) (Sale, error) {
	s := Settlement{Request: c.Request, Answer: answer, Limit: g.FreeSettlements}
	if !c.plain {
		s.Kept = g.kept()
	}
	twin, err := g.reserve(ctx, f, c, r, &s)
	if err != nil || twin != nil {
		g.release(ctx, r)
	}
	switch {
	case err != nil:
		return Sale{}, err
	case twin != nil && twin.Request != c.Request:
		return Sale{}, ErrIdentifier
	case twin != nil:
		return g.resume(context.WithoutCancel(ctx), f, c.Order, *twin)
	}
	g.reserved(s.Month)
	g.At(Begun)
	r.State, r.Answer, r.Month = Settling, s.Answer, s.Month
	sale, err := g.askToSettle(context.WithoutCancel(ctx), r, request)
	g.room.ended(r.Key.Payer, r.Client)
	return sale, err
}

// reserve begins the settlement as soon as there is room for it, or gives the
// record that its identifier has bought with. While it waits nothing has begun,
// and it ends with those who wait for it.
func (g *Gate) reserve(ctx context.Context, f *flight, c *call, r Record, s *Settlement) (*Record, error) {
	waiting, cancel := context.WithTimeout(ctx, g.Answer)
	defer cancel()
	for {
		now := g.Now()
		if err := c.Offer.judgeWindow(c.Payment, now, settleMargin); err != nil {
			return nil, err
		}
		s.Month, s.Caps, s.Deadline = Month(now), g.caps(), now.Add(2*g.SettleTimeout+time.Minute)
		if !f.pin() {
			return nil, ctx.Err()
		}
		seen := g.room.seen()
		twin, err := g.begin(context.WithoutCancel(ctx), r, *s)
		if errors.Is(err, ErrCrowded) {
			f.unpin()
			if err := g.room.wait(waiting, seen, r.Key.Payer, r.Client); err != nil {
				return nil, err
			}
			continue
		}
		g.room.looked(err, r.Key.Payer, r.Client)
		if err != nil || twin != nil {
			g.quota.stale()
		}
		switch {
		case errors.Is(err, ErrLost):
			return nil, ErrInFlight
		case errors.Is(err, ErrFailing):
			return nil, g.failingError()
		case errors.Is(err, ErrLimit):
			return nil, ErrLimit
		}
		return twin, ledgerFault(err)
	}
}

func (g *Gate) begin(ctx context.Context, r Record, s Settlement) (*Record, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	return g.Ledger.Begin(ctx, r.Key, g.owner, s)
}

package paywall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

func TestSettlements_LimitOfFreeOnesIsHard(t *testing.T) {
	var log bytes.Buffer
	s := open(t, func(o *paywall.Options) {
		o.FreeSettlements = 5
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	ctx := context.Background()
	var first payment.Payment
	for i := range 5 {
		if err := s.paywall.CheckQuota(ctx); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		p := s.pay(fmt.Sprint(i + 1))
		if i == 0 {
			first = p
		}
		s.mustBuy(p)
		if warned := strings.Contains(log.String(), "four fifths"); warned != (i >= 3) {
			t.Errorf("after %d: warned %v", i+1, warned)
		}
	}
	s.wantErr(s.paywall.CheckQuota(ctx), payment.ErrLimit)
	works := s.works.Load()
	_, err := s.buy(s.pay("9"))
	s.wantErr(err, payment.ErrLimit)
	if s.works.Load() != works || s.sim.Verifies != 5 {
		t.Error("worked or called the facilitator for a call that cannot be settled")
	}
	if _, left, _ := s.paywall.Quota(ctx); left != 0 {
		t.Errorf("%d are left", left)
	}
	s.mustBuy(first) // what was paid for is given all the same
	s.clock.advance(payment.NextMonth(start).Sub(start))
	if err := s.paywall.CheckQuota(ctx); err != nil {
		t.Errorf("in the next month: %v", err)
	}
	s.mustBuy(s.pay("a"))
	s.wantTransfers(6)
	if n := strings.Count(log.String(), "four fifths"); n != 1 {
		t.Errorf("warned %d times in a month", n)
	}
}

func TestSettlements_ManyReplicasKeepTheLimitExactly(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.FreeSettlements = 10 })
	gates := []*paywall.Paywall{s.paywall, s.replica(func(o *paywall.Options) { o.FreeSettlements = 10 })}
	var sold atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		p := s.pay(fmt.Sprintf("%x", i+1))
		all.Go(func() {
			_, err := gates[i%2].Buy(context.Background(), s.order(p, fmt.Sprint("thing", i)))
			if err == nil {
				sold.Add(1)
			} else if !errors.Is(err, payment.ErrLimit) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sold.Load() != 10 {
		t.Errorf("%d were sold", sold.Load())
	}
	s.wantTransfers(10)
	s.wantReserved(10)
}

// TestSettlements_AtTheLimitNoWindowCausesAChallenge: a payment made anew could not be settled either.
func TestSettlements_AtTheLimitNoWindowCausesAChallenge(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.FreeSettlements, o.AttemptsPerAddress = 1, 3 })
	late := s.pay("2")
	s.mustBuy(s.pay("1"))
	s.clock.advance(2 * time.Minute)
	looks := s.sim.Looks
	for range 5 {
		_, err := s.buy(late)
		s.wantErr(err, payment.ErrLimit)
	}
	if n := s.sim.Looks - looks; n != 3 { // each search is an attempt
		t.Errorf("the chain was searched %d times", n)
	}
}

// TestSettlements_NoneIsRequestedDuringTheFacilitatorsPause, though the sale began before it.
func TestSettlements_NoneIsRequestedDuringTheFacilitatorsPause(t *testing.T) {
	s := open(t, nil)
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return x402.SettleResponse{}, payment.ErrFacilitatorLimit
	}
	o := s.order(s.pay("1"), "thing")
	o.Work = func(context.Context) ([]byte, error) {
		_, err := s.buyThing(s.pay("2"), "other")
		s.wantErr(err, payment.ErrPending)
		return []byte("the thing"), nil
	}
	_, err := s.paywall.Buy(t.Context(), o)
	var paused *payment.LaterError
	if !errors.Is(err, payment.ErrLimit) || !errors.As(err, &paused) || paused.After != time.Minute {
		t.Errorf("got %v", err)
	}
	if n := len(s.sim.Bodies); n != 1 {
		t.Errorf("settle was requested %d times", n)
	}
	s.wantReserved(1)
}

func TestSettlements_AFacilitatorAtItsLimitIsLeftAlone(t *testing.T) {
	s := open(t, nil)
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return x402.SettleResponse{}, payment.ErrFacilitatorLimit
	}
	_, err := s.buy(s.pay("1"))
	s.wantErr(err, payment.ErrPending) // it was called: perhaps the money moved
	if len(s.sim.Bodies) != 1 {
		t.Error("settle was retried")
	}
	s.wantErr(s.paywall.CheckQuota(context.Background()), payment.ErrLimit)
	s.clock.advance(time.Minute)
	if err := s.paywall.CheckQuota(context.Background()); err != nil {
		t.Errorf("later: %v", err)
	}
}

func TestHangUp_BeforeSettlingPaysNothing(t *testing.T) {
	s := open(t, nil)
	ctx, hangUp := context.WithCancel(context.Background())
	o := s.order(s.pay("1"), "thing")
	o.Work = func(ctx context.Context) ([]byte, error) {
		hangUp()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := s.paywall.Buy(ctx, o)
	s.wantErr(err, context.Canceled)
	if err := s.paywall.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.wantTransfers(0)
	if list, _ := s.ledger.List(context.Background(), payment.Filter{}); len(list) != 0 {
		t.Errorf("the claim stayed: %+v", list)
	}
}

func TestHangUp_WhileSettlingGetsTheAnswerLater(t *testing.T) {
	s := open(t, nil)
	ctx, hangUp := context.WithCancel(context.Background())
	s.sim.OnSettle = func(settling context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		hangUp()
		time.Sleep(20 * time.Millisecond)
		if settling.Err() != nil {
			t.Error("settling ended with the caller")
		}
		return honest(), nil
	}
	p := s.pay("1")
	_, err := s.paywall.Buy(ctx, s.order(p, "thing"))
	s.wantErr(err, context.Canceled)
	s.mustBuy(p)
	s.wantTransfers(1)
	if len(s.sim.Bodies) != 1 {
		t.Errorf("settled %d times", len(s.sim.Bodies))
	}
}

// A payment that has found an earlier one for its question has begun nothing, so who hangs up then
// pays nothing, also when the earlier one fails.
func TestHangUp_WhileAnEarlierPaymentSettlesPaysNothing(t *testing.T) {
	s := open(t, asked)
	settling, refused := make(chan struct{}), make(chan struct{})
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		s.sim.Set(func(b *paymenttest.Simulator) { b.OnSettle = nil })
		close(settling)
		<-refused
		return refusal(x402.ReasonInsufficientFunds), nil
	}
	ctx, hangUp := context.WithCancel(context.Background())
	claimed := make(chan struct{}, 10)
	o := s.order(s.pay("2"), "thing")
	o.Work = func(context.Context) ([]byte, error) {
		claimed <- struct{}{}
		<-settling
		return []byte("the thing"), nil
	}
	first, second := make(chan error), make(chan error)
	go func() { _, err := s.paywall.Buy(ctx, o); second <- err }()
	<-claimed
	go func() { _, err := s.buy(s.pay("1")); first <- err }()
	<-settling
	for n := 2; n != 1; { // until the second has released its claim
		list, err := s.ledger.List(context.Background(), payment.Filter{})
		if n = len(list); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	hangUp()
	s.wantErr(<-second, context.Canceled)
	close(refused)
	s.wantErr(<-first, payment.ErrNotSettled)
	if err := s.paywall.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.wantTransfers(0)
}

func TestHangUp_OfTheFirstCallerLeavesACopyGoingOn(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	ctx, hangUp := context.WithCancel(context.Background())
	working, goOn := make(chan struct{}), make(chan struct{})
	o := s.order(p, "thing")
	work := o.Work
	o.Work = func(ctx context.Context) ([]byte, error) {
		close(working)
		<-goOn
		return work(ctx)
	}
	first := make(chan error)
	go func() {
		_, err := s.paywall.Buy(ctx, o)
		first <- err
	}()
	<-working
	second := make(chan error)
	go func() {
		_, err := s.paywall.Buy(context.Background(), o)
		second <- err
	}()
	time.Sleep(20 * time.Millisecond)
	hangUp()
	s.wantErr(<-first, context.Canceled)
	close(goOn)
	if err := <-second; err != nil {
		t.Error(err)
	}
	s.wantTransfers(1)
}

func TestClose_WaitsForSettlementsAndBeginsNoMore(t *testing.T) {
	s := open(t, nil)
	settling := make(chan struct{})
	s.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		close(settling)
		time.Sleep(50 * time.Millisecond)
		return honest(), nil
	}
	go func() { _, _ = s.buy(s.pay("1")) }()
	<-settling
	if err := s.paywall.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.wantState(payment.Settled)
	_, err := s.buy(s.pay("2"))
	s.wantErr(err, payment.ErrInFlight)
}

func TestIdentifier_ThatHasPaidReturnsTheFirstAnswer(t *testing.T) {
	s := open(t, nil)
	first := s.mustBuy(s.read(2, withIdentifier(paymenttest.Authorization("1", start), "order_0123456789")))
	resigned := s.read(2, withIdentifier(paymenttest.Authorization("2", start), "order_0123456789"))
	again := s.mustBuy(resigned)
	if again.Transaction != first.Transaction {
		t.Errorf("got transaction %s, want %s", again.Transaction, first.Transaction)
	}
	s.wantTransfers(1)
	s.wantState(payment.Settled)
	_, err := s.paywall.Buy(context.Background(), s.order(resigned, "other thing"))
	s.wantErr(err, payment.ErrIdentifier)
	s.wantTransfers(1)
}

func TestOpen_RefusesWhatNoPaywallCanWorkWith(t *testing.T) {
	var good paywall.Options
	open(t, func(o *paywall.Options) { good = *o })
	for name, change := range map[string]func(*paywall.Options){
		"no ledger":                      func(o *paywall.Options) { o.Ledger = nil },
		"no facilitator":                 func(o *paywall.Options) { o.Facilitator = nil },
		"no log":                         func(o *paywall.Options) { o.Log = nil },
		"no clock":                       func(o *paywall.Options) { o.Now = nil },
		"less than no settlements":       func(o *paywall.Options) { o.FreeSettlements = -1 },
		"a window of reuse below zero":   func(o *paywall.Options) { o.ReuseWindow = -1 },
		"no time to verify":              func(o *paywall.Options) { o.VerifyTimeout = 0 },
		"no time to settle":              func(o *paywall.Options) { o.SettleTimeout = 0 },
		"no time to work":                func(o *paywall.Options) { o.WorkTimeout = 0 },
		"no attempts of a payer":         func(o *paywall.Options) { o.AttemptsPerPayer = 0 },
		"no attempts of an address":      func(o *paywall.Options) { o.AttemptsPerAddress = 0 },
		"to confirm without a chain log": func(o *paywall.Options) { o.Confirm, o.ChainLog = true, nil },
	} {
		o := good
		change(&o)
		if w, err := paywall.Open(t.Context(), o); err == nil {
			t.Errorf("%s: opened", name)
			_ = w.Close(t.Context())
		}
	}
}

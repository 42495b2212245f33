package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// A client that has seen the payment carries it out before it is checked.
func TestBuy_SellsForAPaymentThatAnotherHasCarriedOut(t *testing.T) {
	for name, change := range map[string]func(*paymenttest.Simulator){
		"the facilitator says that it is used": func(*paymenttest.Simulator) {},
		"the facilitator calls it valid":       func(b *paymenttest.Simulator) { b.OnVerify = verdict(true, "") },
		"the facilitator says anything else":   func(b *paymenttest.Simulator) { b.OnVerify = verdict(false, x402.ReasonInsufficientFunds) },
		"the account is looked up before":      func(b *paymenttest.Simulator) { b.OnVerify = nil },
		"an earlier payment bought the answer": func(*paymenttest.Simulator) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			s.paywall = s.replica(func(o *paywall.Options) {
				switch name {
				case "the account is looked up before":
					o.Accounts = s.sim
				case "an earlier payment bought the answer":
					asked(o)
				}
			})
			transfers := 1
			if name == "an earlier payment bought the answer" {
				s.mustBuy(s.pay("e"))
				transfers = 2
			}
			s.sim.Set(change)
			p := s.pay("1")
			s.sim.CarryOut("1")
			s.mustBuy(p)
			s.mustBuy(p)
			s.wantTransfers(transfers)
			s.wantReserved(transfers)
			_, err := s.paywall.Buy(context.Background(), s.order(p, "other"))
			s.wantErr(err, payment.ErrUsed)
			settled, err := s.ledger.List(context.Background(), payment.Filter{State: payment.Settled})
			if err != nil || len(settled) != transfers {
				t.Errorf("settled are %+v, %v", settled, err)
			}
		})
	}
}

func verdict(valid bool, reason string) func() (x402.VerifyResponse, error) {
	return func() (x402.VerifyResponse, error) {
		return x402.VerifyResponse{IsValid: &valid, InvalidReason: reason}, nil
	}
}

func TestBuy_SaysThatNothingWasChargedOnlyWhereTheChainDoes(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*fixture)
		want    error
		unspent bool
	}{
		"unused":                {func(*fixture) {}, payment.ErrRefused, true},
		"cancelled":             {func(s *fixture) { s.sim.Cancel("1") }, payment.ErrRefused, false},
		"the node is away":      {func(s *fixture) { s.sim.ChainLog = errors.New("node away") }, payment.ErrPending, false},
		"the node is behind":    {func(s *fixture) { s.sim.OnVerify = verdict(false, x402.ReasonNonceAlreadyUsed) }, payment.ErrPending, false},
		"there is no node":      {func(s *fixture) { s.paywall = s.replica(func(o *paywall.Options) { o.ChainLog = nil }) }, payment.ErrRefused, false},
		"the window has closed": {func(s *fixture) { s.clock.advance(5 * time.Minute) }, payment.ErrInvalid, true},
		"our clock is behind":   {func(s *fixture) { s.clock.advance(-10 * time.Minute) }, payment.ErrInvalid, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			p := s.pay("1")
			s.sim.OnVerify = verdict(false, x402.ReasonInsufficientFunds)
			c.change(s)
			_, err := s.buy(p)
			s.wantErr(err, c.want)
			var refusal *payment.Refusal
			if errors.As(err, &refusal) && refusal.Unspent != c.unspent {
				t.Errorf("unspent is %v", refusal.Unspent)
			}
			if list, _ := s.ledger.List(context.Background(), payment.Filter{}); len(list) != 0 {
				t.Errorf("the ledger has %+v", list)
			}
			s.sim.CarryOut("1") // whatever was said before
			s.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog, b.OnVerify = nil, nil })
			if name != "there is no node" && name != "cancelled" {
				s.mustBuy(p)
			}
		})
	}
}

// The money has moved and buys one answer: where the work fails, of another question too.
func TestBuy_APaymentThatWasFoundStaysUsableWhenTheWorkFails(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	s.sim.CarryOut("1")
	o := s.order(p, "other")
	fault := errors.New("no such transaction")
	o.Work = func(context.Context) ([]byte, error) { return nil, fault }
	for range 2 {
		_, err := s.paywall.Buy(context.Background(), o)
		s.wantErr(err, fault)
	}
	s.mustBuy(p)
	_, err := s.paywall.Buy(context.Background(), o)
	s.wantErr(err, payment.ErrUsed)
	s.wantTransfers(1)
}

func TestBuy_SellsForAPaymentThatARestoredLedgerHasForgotten(t *testing.T) {
	for _, later := range []time.Duration{0, 5 * time.Minute, 30 * 24 * time.Hour} {
		t.Run(later.String(), func(t *testing.T) {
			s := open(t, nil)
			p := s.pay("1")
			s.mustBuy(p)
			s.clock.advance(later)
			s.ledger = paymenttest.Ledger(t, s.clock.now)
			s.paywall = s.replica(nil)
			s.mustBuy(p)
			s.mustBuy(p)
			s.wantTransfers(1)
			s.wantState(payment.Settled)
		})
	}
}

// The holder of the payment may be killed between any two lines.
func TestBuy_ServesAPaymentThatWasFoundAfterACrash(t *testing.T) {
	for _, point := range []paywall.Point{paywall.Claimed, paywall.Worked, paywall.Finished} {
		t.Run(string(point), func(t *testing.T) {
			s := open(t, nil)
			hang := make(chan struct{})
			reached := make(chan struct{}, 10)
			dead := s.replica(func(o *paywall.Options) {
				o.At = func(at paywall.Point) {
					if at == point {
						reached <- struct{}{}
						<-hang
					}
				}
			})
			t.Cleanup(func() { close(hang) }) // before the replica is closed
			p := s.pay("1")
			s.sim.CarryOut("1")
			go func() { _, _ = dead.Buy(context.Background(), s.order(p, "thing")) }()
			<-reached
			s.clock.advance(6 * time.Hour) // its life signs have ended
			s.mustBuy(p)
			s.wantTransfers(1)
			s.wantReserved(1)
			s.wantState(payment.Settled)
		})
	}
}

// The node that is looked at first may be behind the others (VERIFIER-5.6, 5.7).
func TestBuy_OneNodesWordIsNotThatNothingWasCharged(t *testing.T) {
	for name, c := range map[string]struct {
		later  time.Duration
		funded bool
	}{
		"the window has closed":     {5 * time.Minute, true},
		"the money is not seen yet": {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			p := s.pay("1")
			s.paywall = s.replica(func(o *paywall.Options) { o.Accounts = oneBehind{s.sim, c.funded} })
			s.clock.advance(c.later)
			_, err := s.buy(p)
			var refusal *payment.Refusal
			if !errors.As(err, &refusal) || !refusal.Unspent || s.sim.Looks != 0 {
				t.Errorf("unused: got %v after %d searches", err, s.sim.Looks)
			}
			s.sim.CarryOut("1")
			s.sim.ChainLog = errors.New("the nodes do not agree")
			_, err = s.buy(p)
			s.wantErr(err, payment.ErrPending)
			s.sim.ChainLog = nil
			s.mustBuy(p)
			s.wantTransfers(1)
		})
	}
}

// oneBehind is a network whose first node has seen nothing spent.
type oneBehind struct {
	*paymenttest.Simulator
	funded bool
}

func (b oneBehind) Account(context.Context, payment.Key, string) (payment.Account, error) {
	return payment.Account{Funded: b.funded}, nil
}

// unseen is a network whose nodes do not show yet that an authorization was used.
type unseen struct{ *paymenttest.Simulator }

func (unseen) Account(context.Context, payment.Key, string) (payment.Account, error) {
	return payment.Account{Funded: true}, nil
}

func (unseen) Spent(context.Context, payment.Key) (bool, error) { return false, nil }

// TestBuy_SearchesForAPaymentThatTheFacilitatorWasSent: it may have carried it out just now.
func TestBuy_SearchesForAPaymentThatTheFacilitatorWasSent(t *testing.T) {
	s := open(t, nil)
	s.paywall = s.replica(func(o *paywall.Options) { o.Accounts = unseen{s.sim} })
	p := s.pay("1")
	s.sim.CarryOut("1")
	s.mustBuy(p)
	s.wantTransfers(1)
}

// TestBuy_SearchesForNoCopyThatIsNotPlain: who sends a broken one is served nothing for the payer's money.
func TestBuy_SearchesForNoCopyThatIsNotPlain(t *testing.T) {
	s := open(t, nil)
	s.sim.Signed = plain
	s.sim.CarryOut("1")
	_, err := s.buyThing(s.forged("1"), "other")
	s.wantErr(err, payment.ErrRefused)
	if s.sim.Looks != 0 {
		t.Errorf("%d searches", s.sim.Looks)
	}
	s.mustBuy(s.pay("1"))
	s.wantTransfers(1)
}

// foundMeanwhile calls sell before it shows a payment.
type foundMeanwhile struct {
	payment.ChainLog
	sell func()
}

func (c foundMeanwhile) Authorization(ctx context.Context, r payment.Record) (payment.Authorization, error) {
	c.sell()
	return c.ChainLog.Authorization(ctx, r)
}

func TestBuy_APaymentThatIsFoundTwiceAtOnceBuysOneAnswer(t *testing.T) {
	for thing, want := range map[string]error{"thing": nil, "other": payment.ErrUsed} {
		s := open(t, nil)
		p := s.pay("1")
		s.sim.CarryOut("1")
		second := s.replica(func(o *paywall.Options) {
			o.ChainLog = foundMeanwhile{s.sim, func() { s.mustBuy(p) }}
		})
		sale, err := second.Buy(t.Context(), s.order(p, thing))
		if s.wantErr(err, want); err == nil && sale.Answer.String() != "the thing" {
			t.Errorf("bought %q", sale.Answer)
		}
		s.wantTransfers(1)
	}
}

func TestBuy_StrangersSearchTheChainForFewPayments(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 100_000 })
	s.paywall = s.replica(func(o *paywall.Options) { o.Accounts, o.AttemptsPerAddress = s.sim, 600 })
	for i := range 1000 {
		nonce := fmt.Sprintf("%x", i+1)
		s.sim.Cancel(nonce)
		_, _ = s.paywall.Buy(context.Background(), s.order(s.payOf(i, nonce), "thing"))
	}
	if s.sim.Looks > 300 || s.sim.Accounts > 300 {
		t.Errorf("1000 payments of strangers cost %d searches and %d looks", s.sim.Looks, s.sim.Accounts)
	}
}

func TestBuy_OneNetworkOfStrangersKeepsNoNewBuyerOut(t *testing.T) {
	s := open(t, nil)
	s.paywall = s.replica(func(o *paywall.Options) { o.Accounts, o.AttemptsPerAddress = s.sim, 600 })
	for i := range 600 { // each may cost two lookups
		if i%2 == 0 {
			s.clock.advance(time.Second)
		}
		nonce := fmt.Sprintf("%x", i+1)
		s.sim.Cancel(nonce)
		_ = s.buyFrom(s.paywall, fmt.Sprintf("192.0.2.%d", i%250), s.payOf(i+1, nonce))
	}
	s.mustBuyFrom("203.0.113.1", s.pay("aaaa"))
}

// The facilitator says that it has sent nothing, and then it has.
func TestBuy_LooksOnceMoreBeforeItAsksForMoneyAgain(t *testing.T) {
	s := open(t, nil)
	s.paywall = s.replica(func(o *paywall.Options) { o.Pause = 25 * time.Millisecond })
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		time.AfterFunc(30*time.Millisecond, func() { s.sim.CarryOut("1") })
		return refusal(x402.ReasonInsufficientFunds), nil
	}
	s.mustBuy(s.pay("1"))
	s.wantTransfers(1)
	s.wantState(payment.Settled)
}

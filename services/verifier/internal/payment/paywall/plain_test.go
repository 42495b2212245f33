package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// believing has a facilitator that calls every copy valid, and which settles the good ones
// alone; what it answers for the others is up to the test.
func (s *fixture) believing(broken func() (x402.SettleResponse, error)) {
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnSettleOf = func(p x402.ExactPayload, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
			if plain(p) {
				return honest(), nil
			}
			return broken()
		}
	})
}

func cutOff() (x402.SettleResponse, error) { return x402.SettleResponse{}, paymenttest.ErrCut }

func refused() (x402.SettleResponse, error) { return refusal(x402.ReasonInvalidSignature), nil }

// buyThing buys another thing from an address of its own, as who has seen the payment may.
func (s *fixture) buyThing(p payment.Payment, thing string) (paywall.Sale, error) {
	o := s.order(p, thing)
	o.Address = "203.0.113.9"
	return s.paywall.Buy(context.Background(), o)
}

func TestBuy_ServesThePlainCopyAfterOneThatIsNotWasRefusedOrLeftOpen(t *testing.T) {
	for name, end := range map[string]func() (x402.SettleResponse, error){"refused": refused, "left open": cutOff} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			s.believing(end)
			if _, err := s.buyThing(s.forged("1"), "other"); err == nil {
				t.Fatal("a broken copy was served")
			}
			s.mustBuy(s.pay("1"))
			s.wantTransfers(1)
			s.reconciler(nil).Reconcile(context.Background())
			_, err := s.buyThing(s.forged("1"), "other")
			s.wantErr(err, payment.ErrUsed)
			s.mustBuy(s.pay("1"))
			s.wantTransfers(1)
		})
	}
}

func TestBuy_ServesThePlainCopyWhileOneThatIsNotIsWorkedForOrSettled(t *testing.T) {
	for _, step := range []string{"working", "settling"} {
		t.Run(step, func(t *testing.T) {
			s := open(t, nil)
			began, hang := make(chan struct{}), make(chan struct{})
			s.believing(func() (x402.SettleResponse, error) {
				if step == "settling" {
					close(began)
					<-hang
				}
				return refused()
			})
			o := s.order(s.forged("1"), "other")
			o.Address = "203.0.113.9"
			if work := o.Work; step == "working" {
				o.Work = func(ctx context.Context) ([]byte, error) {
					close(began)
					<-hang
					return work(ctx)
				}
			}
			ended := make(chan error)
			go func() {
				_, err := s.paywall.Buy(context.Background(), o)
				ended <- err
			}()
			<-began
			s.mustBuy(s.pay("1"))
			close(hang)
			s.wantErr(<-ended, payment.ErrUsed)
			s.wantTransfers(1)
		})
	}
}

// The facilitator has called a broken copy valid and left its outcome open; then the good
// authorization is carried out by a client that has seen it.
func TestBuy_GivesTheAnswerToThePlainCopyWhenTheChainShowsTheMoney(t *testing.T) {
	for _, order := range []string{"the plain copy came before the money", "it comes after", "it comes after the other was served"} {
		t.Run(order, func(t *testing.T) {
			s := open(t, nil)
			s.sim.Set(func(b *paymenttest.Simulator) {
				b.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) { return cutOff() }
			})
			_, err := s.buyThing(s.forged("1"), "other")
			s.wantErr(err, payment.ErrPending)
			good := s.pay("1")
			if order == "the plain copy came before the money" {
				_, err := s.buy(good)
				s.wantErr(err, payment.ErrPending)
			}
			s.sim.CarryOut("1")
			if order == "it comes after the other was served" {
				s.reconciler(nil).Reconcile(context.Background())
				if _, err := s.buyThing(s.forged("1"), "other"); err != nil {
					t.Fatal(err) // it cannot be told from a contract's
				}
			}
			s.mustBuy(good)
			for range 2 {
				_, err = s.buyThing(s.forged("1"), "other")
				s.wantErr(err, payment.ErrUsed)
				s.clock.advance(2 * time.Minute)
				s.reconciler(nil).Reconcile(context.Background())
			}
			s.mustBuy(good)
			settled, err := s.ledger.List(context.Background(), payment.Filter{State: payment.Settled})
			if err != nil || len(settled) != 1 || !settled[0].Plain || settled[0].Key.IsCopy() {
				t.Errorf("settled are %+v, %v; want the plain copy", settled, err)
			}
			s.wantTransfers(1)
		})
	}
}

// TestBuy_APlainCopyIsRefusedOnceTheChainShowsThatNothingMoved: it is not pending for ever. Where another copy is settled
// by the facilitator's word alone, the chain shows nothing.
func TestBuy_APlainCopyIsRefusedOnceTheChainShowsThatNothingMoved(t *testing.T) {
	for _, confirm := range []bool{true, false} {
		s := open(t, func(o *paywall.Options) { o.Confirm = confirm })
		good := s.pay("1")
		if _, err := s.buyThing(s.forged("1"), "other"); err != nil {
			t.Fatal(err) // as a contract's
		}
		s.sim.Lose("1")
		s.clock.advance(time.Hour + time.Minute)
		s.sim.Set(func(b *paymenttest.Simulator) { b.Final = true })
		k := s.reconciler(func(o *paywall.ReconcilerOptions) { o.Confirm = confirm })
		k.Check(t.Context())
		k.Reconcile(t.Context())
		s.wantState(map[bool]payment.State{true: payment.Dead, false: payment.Settled}[confirm])
		_, err := s.buy(good)
		var refusal *payment.Refusal
		if confirm && (!errors.As(err, &refusal) || !refusal.Unspent || refusal.Reason != payment.ReasonExpired) {
			t.Errorf("got %v", err)
		}
		if !confirm {
			s.wantErr(err, payment.ErrUsed)
		}
	}
}

// A payer whose account has code signs twice with one nonce, and only the copy of the lower amount
// is carried out.
func TestBuy_APlainCopyGetsNoMoreThanTheChainShowsAsPaid(t *testing.T) {
	s := open(t, nil)
	if _, err := s.buyThing(s.forged("1"), "other"); err != nil {
		t.Fatal(err)
	}
	o := s.order(payment.Payment{}, "thing")
	o.Offer.Terms.Amount = "250000"
	a := paymenttest.Authorization("1", s.clock.now())
	a.Value = o.Offer.Terms.Amount
	o.Payment = s.read(2, paymenttest.PayloadV2(o.Offer, a))
	for range 2 {
		_, err := s.paywall.Buy(context.Background(), o)
		s.wantErr(err, payment.ErrUsed)
	}
	if r := s.wantState(payment.Settled); r.Plain || r.Amount != "10000" {
		t.Errorf("the ledger has %+v", r)
	}
	s.wantTransfers(1)
	if _, err := s.buyThing(s.forged("1"), "other"); err != nil {
		t.Error(err)
	}
}

// What pays without a plain copy, a contract does.
func TestBuy_SellsOnceForCopiesThatAreNotPlain(t *testing.T) {
	s := open(t, nil)
	p := s.forged("1")
	s.mustBuy(p)
	s.mustBuy(p)
	if r := s.wantState(payment.Settled); r.Plain || r.Key.IsCopy() {
		t.Errorf("the ledger has %+v", r)
	}
	another := payloadV2(paymenttest.Authorization("1", s.clock.now()))
	another.Payload.Signature = paymenttest.Forged + "00"
	_, err := s.buyThing(s.read(2, another), "other")
	s.wantErr(err, payment.ErrUsed)
	s.wantTransfers(1)
}

// Copies of one authorization, one of them plain, over two processes and a facilitator that
// calls all valid: one transfer, and the holder of the plain copy has the answer.
func TestBuy_SellsToThePlainCopyOfAHundredAtOnce(t *testing.T) {
	s, other := openSQL(t, nil)
	s.believing(func() (x402.SettleResponse, error) { return refusal(x402.ReasonNonceAlreadyUsed), nil })
	gates := []*paywall.Paywall{s.paywall, other}
	good := s.pay("1")
	var all sync.WaitGroup
	for i := range 100 {
		p := payloadV2(paymenttest.Authorization("1", s.clock.now()))
		p.Payload.Signature = broken(p.Payload.Signature, i)
		bad := s.read(2, p)
		all.Go(func() {
			if i%10 == 0 {
				if sale, err := gates[i%2].Buy(context.Background(), s.order(good, "thing")); err != nil || sale.Answer.String() != "the thing" {
					t.Errorf("the plain copy got %q, %v", sale.Answer, err)
				}
				return
			}
			o := s.order(bad, fmt.Sprint("other", i))
			o.Address = fmt.Sprintf("2001:db8:%x::/64", i)
			_, _ = gates[i%2].Buy(context.Background(), o)
		})
	}
	all.Wait()
	s.wantTransfers(1)
	s.mustBuy(good)
	for range 3 {
		s.clock.advance(time.Minute)
		s.reconciler(nil).Reconcile(context.Background())
	}
	settled, err := s.ledger.List(context.Background(), payment.Filter{State: payment.Settled})
	if err != nil || len(settled) != 1 || !settled[0].Plain {
		t.Errorf("settled are %+v, %v", settled, err)
	}
}

// An address alone is enough to send a copy in another's name.
func TestBuy_CopiesThatAreNotPlainKeepNoPayerFromTheirQuestion(t *testing.T) {
	s := open(t, asked)
	s.believing(cutOff)
	_, err := s.buyThing(s.forged("1"), "thing")
	s.wantErr(err, payment.ErrPending)
	if sale := s.mustBuy(s.pay("2")); sale.Reused {
		t.Error("it is the answer of another's")
	}
	s.wantTransfers(1)
}

// What a contract has paid for is lost in a reorganization, and comes again: a plain copy whose work fails meanwhile
// does not make the ledger forget it.
func TestBuy_ServesACopyThatWasSoldAfterTheWorkForThePlainOneFailed(t *testing.T) {
	s := open(t, nil)
	ctx := context.Background()
	copied := s.forged("1")
	if _, err := s.buyThing(copied, "other"); err != nil {
		t.Fatal(err)
	}
	s.sim.Lose("1")
	s.sim.Set(func(b *paymenttest.Simulator) { b.Final = true })
	s.clock.advance(time.Hour + time.Minute)
	s.reconciler(nil).Check(ctx)
	dead := payment.Decision{To: payment.Dead, By: "root", Note: "lost"}
	if _, err := paywall.Decide(ctx, s.ledger, nil, s.clock.now(), s.wantState(payment.Unknown), dead, false); err != nil {
		t.Fatal(err)
	}
	o := s.order(s.pay("1"), "thing") // signed anew, with the same nonce
	failed := errors.New("the node is away")
	o.Work = func(context.Context) ([]byte, error) { return nil, failed }
	_, err := s.paywall.Buy(ctx, o)
	s.wantErr(err, failed)
	s.sim.CarryOut("1")
	if sale, err := s.buyThing(copied, "other"); err != nil || sale.Answer.String() != "the other" {
		t.Errorf("got %q, %v", sale.Answer, err)
	}
	s.wantState(payment.Settled)
	s.wantTransfers(1)
}

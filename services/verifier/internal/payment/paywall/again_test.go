package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// asked answers a question again for a day, and three times a day.
func asked(o *paywall.Options) { o.ReuseWindow, o.ReusesPerPayer = 24*time.Hour, 3 }

// cut has the facilitator move the money and not answer, while no node answers either.
func (s *fixture) cut() {
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
			honest()
			return x402.SettleResponse{}, paymenttest.ErrCut
		}
		b.ChainLog = errors.New("the node is away")
	})
}

func TestReuse_APaidQuestionReturnsTheFirstAnswer(t *testing.T) {
	s := open(t, asked)
	first := s.mustBuy(s.pay("1"))
	if first.Reused {
		t.Error("the first is a reuse")
	}
	checks := s.sim.Verifies
	again := s.mustBuy(s.pay("2"))
	if again.Transaction != first.Transaction || !again.Reused {
		t.Errorf("got %+v, want the transaction %s", again, first.Transaction)
	}
	if s.sim.Verifies != checks+1 {
		t.Errorf("the facilitator verified %d payments more, want 1", s.sim.Verifies-checks)
	}
	if s.works.Load() != 1 {
		t.Errorf("worked %d times", s.works.Load())
	}
	s.wantTransfers(1)
	s.wantReserved(1)
	s.wantState(payment.Settled) // there is one record
	if sale := s.mustBuy(s.pay("1")); sale.Reused {
		t.Error("the payment that was spent is no repetition")
	}
}

func TestReuse_AnAnswerWithoutAPlaceIsNotCounted(t *testing.T) {
	s := open(t, asked)
	s.mustBuy(s.pay("1"))
	o := s.order(s.pay("2"), "thing")
	o.Fits = func(payment.Answer) bool { return false }
	for range 5 { // of three a day
		_, err := s.paywall.Buy(context.Background(), o)
		s.wantErr(err, payment.ErrInFlight)
	}
	if sale := s.mustBuy(s.pay("2")); !sale.Reused {
		t.Error("it was sold again")
	}
	s.wantTransfers(1)
}

func TestReuse_TheFirstAnswerNeedsAVerifiedPayment(t *testing.T) {
	s := open(t, asked)
	s.mustBuy(s.pay("1"))
	s.sim.Set(func(b *paymenttest.Simulator) { b.Signed = plain })
	_, err := s.buy(s.forged("2")) // in the name of a payer who has bought
	s.wantErr(err, payment.ErrRefused)
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnVerify = func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, paymenttest.ErrCut }
	})
	_, err = s.buy(s.pay("3"))
	s.wantErr(err, payment.ErrFacilitator)
	s.sim.Set(func(b *paymenttest.Simulator) { b.OnVerify = nil })
	s.mustBuy(s.pay("4"))
	s.wantTransfers(1)
}

func TestReuse_WhileTheFirstIsOpenAPayerPaysOnce(t *testing.T) {
	s := open(t, asked)
	s.cut()
	_, err := s.buy(s.pay("1"))
	s.wantErr(err, payment.ErrPending)
	_, err = s.buy(s.pay("2"))
	s.wantErr(err, payment.ErrPending)
	s.wantTransfers(1)
	s.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog = nil })
	if sale := s.mustBuy(s.pay("3")); sale.Transaction != paymenttest.Hash(1) || !sale.Reused {
		t.Errorf("got %+v", sale)
	}
	s.wantTransfers(1)
	s.wantState(payment.Settled)
}

// TestReuse_NoOtherPaymentIsSettledForAnOpenOne: the first may still be carried out.
func TestReuse_NoOtherPaymentIsSettledForAnOpenOne(t *testing.T) {
	for _, id := range []string{"", "order_0123456789"} {
		s := open(t, asked)
		pay := func(nonce string) payment.Payment {
			a := paymenttest.Authorization(nonce, s.clock.now())
			if id == "" {
				return s.read(2, payloadV2(a))
			}
			return s.read(2, withIdentifier(a, id))
		}
		s.blind(false, openEnds["the connection is cut"])
		first := pay("1")
		_, err := s.buy(first)
		s.wantErr(err, payment.ErrPending)
		s.sim.Set(func(b *paymenttest.Simulator) { b.OnSettle = nil })
		s.clock.advance(6 * time.Second) // now the first may be requested again
		_, err = s.buy(pay("2"))
		s.wantErr(err, payment.ErrPending)
		s.wantTransfers(0)
		if sale := s.mustBuy(first); sale.Transaction != paymenttest.Hash(1) {
			t.Errorf("got %+v", sale)
		}
		s.wantTransfers(1)
	}
}

// The first may have moved the last money that the payer had.
func TestReuse_NoChallengeWhileTheFirstIsOpen(t *testing.T) {
	s := open(t, asked)
	s.cut()
	_, err := s.buy(s.pay("1"))
	s.wantErr(err, payment.ErrPending)
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnVerify = func() (x402.VerifyResponse, error) {
			no := false
			return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInsufficientFunds}, nil
		}
	})
	_, err = s.buy(s.pay("2"))
	s.wantErr(err, payment.ErrPending)
	_, err = s.buy(s.forged("3")) // it may be somebody else's
	s.wantErr(err, payment.ErrRefused)
}

func TestReuse_ADeadPaymentIsSoldAnew(t *testing.T) {
	s := open(t, asked)
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			return refusal(x402.ReasonInsufficientFunds), nil
		}
	})
	_, err := s.buy(s.pay("1"))
	s.wantErr(err, payment.ErrNotSettled)
	s.sim.Set(func(b *paymenttest.Simulator) { b.OnSettle = nil })
	if sale := s.mustBuy(s.pay("2")); sale.Reused {
		t.Error("it is not sold anew")
	}
	s.wantTransfers(1)
}

// between calls do before a search for an earlier payment, the second time.
type between struct {
	payment.Ledger
	searches atomic.Int32
	do       func()
}

func (l *between) Earlier(ctx context.Context, asked payment.Asked) (payment.Record, error) {
	if l.searches.Add(1) == 2 {
		l.do()
	}
	return l.Ledger.Earlier(ctx, asked)
}

// TestReuse_APaymentThatWasSpentIsNotCalledReused: while a call waits for an earlier payment, that dies, and a replica
// sells for the call's own.
func TestReuse_APaymentThatWasSpentIsNotCalledReused(t *testing.T) {
	s := open(t, asked)
	settling, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			close(settling)
			<-end
			return refusal(x402.ReasonInsufficientFunds), nil
		}
	})
	go func() {
		_, err := s.buy(s.pay("1"))
		ended <- err
	}()
	<-settling
	p := s.pay("2")
	other := s.replica(asked)
	waiting := s.replica(func(o *paywall.Options) {
		asked(o)
		o.Ledger = &between{Ledger: s.ledger, do: func() {
			close(end)
			s.wantErr(<-ended, payment.ErrNotSettled)
			s.sim.Set(func(b *paymenttest.Simulator) { b.OnSettle = nil })
			if sale, err := other.Buy(t.Context(), s.order(p, "thing")); err != nil || sale.Reused {
				t.Errorf("got %+v, %v", sale, err)
			}
		}}
	})
	sale, err := waiting.Buy(t.Context(), s.order(p, "thing"))
	if err != nil || sale.Reused || sale.Answer.String() != "the thing" {
		t.Errorf("got %+v, %v", sale, err)
	}
	s.wantTransfers(1)
}

func TestReuse_OtherPayersAndQuestionsAreSold(t *testing.T) {
	s := open(t, asked)
	s.mustBuy(s.pay("1"))
	s.mustBuy(s.payOf(1, "2"))
	sale, err := s.paywall.Buy(context.Background(), s.order(s.pay("3"), "other"))
	if err != nil || sale.Answer.String() != "the other" || sale.Reused {
		t.Errorf("got %+v, %v", sale, err)
	}
	s.wantTransfers(3)
}

func TestReuse_WindowBeginsWithTheFirstPayment(t *testing.T) {
	s := open(t, asked)
	s.mustBuy(s.pay("1"))
	s.clock.advance(24 * time.Hour)
	s.mustBuy(s.pay("2"))
	s.wantTransfers(1)
	s.clock.advance(time.Millisecond)
	s.mustBuy(s.pay("3"))
	s.wantTransfers(2)
}

func TestReuse_AWindowOfZeroSellsEveryPayment(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.ReusesPerPayer = 3 })
	for i := range 5 {
		s.mustBuy(s.pay(fmt.Sprint(i)))
	}
	s.wantTransfers(5)
}

func TestReuse_AnExplicitIdentifierDecides(t *testing.T) {
	s := open(t, asked)
	with := func(nonce, id string) payment.Payment {
		return s.read(2, withIdentifier(paymenttest.Authorization(nonce, s.clock.now()), id))
	}
	s.mustBuy(s.pay("1"))
	s.mustBuy(with("2", "order_0123456789"))
	s.mustBuy(with("3", "order_9876543210"))
	s.wantTransfers(3)
	for i := range 5 { // more often than a day allows without
		if sale := s.mustBuy(with(fmt.Sprint("4", i), "order_0123456789")); sale.Transaction != paymenttest.Hash(2) || sale.Reused {
			t.Errorf("got %+v", sale)
		}
	}
	_, err := s.paywall.Buy(context.Background(), s.order(with("5", "order_0123456789"), "other"))
	s.wantErr(err, payment.ErrIdentifier)
	if sale := s.mustBuy(s.pay("6")); sale.Transaction != paymenttest.Hash(1) {
		t.Errorf("got %+v", sale)
	}
	s.wantTransfers(3)
}

func TestReuse_ThoseOfAPayerAreCountedByTheDay(t *testing.T) {
	s := open(t, func(o *paywall.Options) { asked(o); o.ReuseWindow = 72 * time.Hour })
	s.mustBuy(s.pay("1"))
	s.sim.Set(func(b *paymenttest.Simulator) { b.Signed = plain })
	for i := range 5 { // which anyone can send, and which take none of the payer's
		_, err := s.buy(s.forged(fmt.Sprint("f", i)))
		s.wantErr(err, payment.ErrRefused)
	}
	for i := range 3 {
		s.mustBuy(s.pay(fmt.Sprint("a", i)))
	}
	checks := s.sim.Verifies
	_, err := s.buy(s.pay("b"))
	s.wantErr(err, payment.ErrTooMany)
	if later := (*payment.LaterError)(nil); !errors.As(err, &later) || later.After != 12*time.Hour {
		t.Errorf("got %v", err)
	}
	if s.sim.Verifies != checks {
		t.Error("the facilitator was called for one too many")
	}
	s.mustBuy(s.pay("1")) // what was paid is served for ever
	s.clock.advance(12 * time.Hour)
	s.mustBuy(s.pay("c"))
	s.wantTransfers(1)
}

func TestReuse_AreAttemptsThatAreNotRefunded(t *testing.T) {
	s := open(t, func(o *paywall.Options) { asked(o); o.ReusesPerPayer, o.AttemptsPerPayer = 20, 5 })
	s.mustBuy(s.pay("1"))
	for i := range 5 {
		s.mustBuy(s.pay(fmt.Sprint("a", i)))
	}
	_, err := s.buy(s.pay("b"))
	s.wantErr(err, payment.ErrTooMany)
}

func TestReuse_NothingIsRepeatedWhenTheMonthIsUsedUp(t *testing.T) {
	s := open(t, func(o *paywall.Options) { asked(o); o.FreeSettlements = 1 })
	p := s.pay("1")
	s.mustBuy(p)
	_, err := s.buy(s.pay("2"))
	s.wantErr(err, payment.ErrLimit)
	s.mustBuy(p)
}

// Copies of a question with different payments, on two replicas at once: one transfer,
// and the same answer for all.
func TestReuse_OnTwoReplicasAtOnceIsPaidOnce(t *testing.T) {
	s, other := openSQL(t, func(o *paywall.Options) { asked(o); o.ReusesPerPayer = 1000 })
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			replica := []*paywall.Paywall{s.paywall, other}[i%2]
			sale, err := replica.Buy(context.Background(), s.order(s.pay(fmt.Sprintf("%x", i+1)), "thing"))
			if err != nil || sale.Answer.String() != "the thing" || sale.Transaction != paymenttest.Hash(1) {
				t.Errorf("got %+v, %v", sale, err)
			}
		})
	}
	all.Wait()
	s.wantTransfers(1)
	s.wantReserved(1)
	s.wantState(payment.Settled)
}

// A stock client keeps no payment and signs anew at each 503. It gets the answer it has paid
// for as soon as the money is there.
func TestPaywall_PendingRepeatsDoNotKeepAPayerFromTheAnswer(t *testing.T) {
	s := open(t, asked)
	for i := range 4 { // one answer, and all the reuses of the day
		_, err := s.paywall.Buy(context.Background(), s.order(s.pay(fmt.Sprint("a", i)), "other thing"))
		if err != nil {
			t.Fatal(err)
		}
	}
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return x402.SettleResponse{}, paymenttest.ErrCut
	}
	_, err := s.buy(s.pay("1"))
	s.wantErr(err, payment.ErrPending)
	for i := range 10 {
		_, err := s.buy(s.pay(fmt.Sprint("b", i)))
		s.wantErr(err, payment.ErrPending)
	}
	s.sim.CarryOut("1")
	s.clock.advance(time.Minute)
	s.reconciler(nil).Reconcile(context.Background())
	if sale := s.mustBuy(s.pay("c")); !sale.Reused {
		t.Errorf("got %+v", sale)
	}
	_, err = s.buy(s.pay("d"))
	s.wantErr(err, payment.ErrTooMany)
	s.wantTransfers(2)
}

// The money of a new payer may have gone into the first payment, so that they have none for
// the second: no challenge while that is open.
func TestPaywall_AnUnfundedRepeatIsPendingAsLongAsTheFirstIs(t *testing.T) {
	s := open(t, func(o *paywall.Options) {
		asked(o)
		o.Accounts = o.Facilitator.(*paymenttest.Simulator)
	})
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return x402.SettleResponse{}, paymenttest.ErrCut
	}
	_, err := s.buy(s.pay("1"))
	s.wantErr(err, payment.ErrPending)
	s.sim.OnAccount = func(string) (payment.Account, error) { return payment.Account{}, nil }
	_, err = s.buy(s.pay("2"))
	s.wantErr(err, payment.ErrPending)
}

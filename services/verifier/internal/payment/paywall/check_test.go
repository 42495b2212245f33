package paywall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// A transfer that a reorganization takes off the chain is found an hour later, when
// its authorization is over.
func TestCheck_FindsATransferThatTheChainLost(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	s.mustBuy(p)
	s.clock.advance(time.Second)
	s.mustBuy(s.pay("2"))
	s.sim.Lose("1")
	s.reconciler(nil).Check(context.Background()) // too early to decide
	s.wantStates(payment.Settled, payment.Settled)
	s.clock.advance(time.Hour + time.Minute)
	s.sim.Set(func(b *paymenttest.Simulator) { b.Final = true })
	s.reconciler(nil).Check(context.Background())
	s.wantStates(payment.Unknown, payment.Settled)
	s.reconciler(nil).Reconcile(context.Background())
	s.wantStates(payment.Dead, payment.Settled)
	s.wantReserved(2) // a transaction was made for each
	s.wantTransfers(1)
}

// A payment that was refused, and carried out by a third party later, is in the books
// although the buyer does not return.
func TestCheck_FindsADeadPaymentThatWasPaid(t *testing.T) {
	s := open(t, nil)
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return refusal(x402.ReasonInsufficientFunds), nil
	}
	_, err := s.buy(s.pay("1"))
	s.wantErr(err, payment.ErrNotSettled)
	s.wantReserved(0)
	s.sim.CarryOut("1")
	s.clock.advance(time.Hour + time.Minute)
	s.reconciler(nil).Check(context.Background())
	s.wantState(payment.Settled)
	s.wantReserved(1)
}

// An authorization may be good for longer than it takes until the check.
func TestCheck_WaitsUntilADeadPaymentCannotBePaid(t *testing.T) {
	s := open(t, nil)
	s.refused()
	s.clock.advance(time.Hour + 30*time.Second)
	s.reconciler(nil).Check(context.Background())
	s.wantState(payment.Dead)
	s.sim.CarryOut("1")
	s.clock.advance(61 * time.Minute)
	s.reconciler(nil).Check(context.Background())
	s.wantState(payment.Settled)
}

// TestCheck_WaitsForTheEndOfWhatWasUsedElsewhere: the block that shows it may not be final yet.
func TestCheck_WaitsForTheEndOfWhatWasUsedElsewhere(t *testing.T) {
	s := open(t, nil)
	s.refused()
	s.clock.advance(time.Hour + 30*time.Second)
	s.reconciler(func(o *paywall.ReconcilerOptions) {
		o.ChainLog = shows{s.sim, payment.Authorization{Status: payment.UsedElsewhere}, nil}
	}).Check(t.Context())
	s.sim.CarryOut("1") // in the block that has replaced it
	s.clock.advance(61 * time.Minute)
	s.reconciler(nil).Check(t.Context())
	s.wantState(payment.Settled)
}

// refused has the facilitator refuse to settle a payment that is good for 61 minutes.
func (s *fixture) refused() {
	s.Helper()
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return refusal(x402.ReasonInsufficientFunds), nil
	}
	a := paymenttest.Authorization("1", s.clock.now())
	a.ValidBefore = paymenttest.Unix(s.clock.now().Add(61 * time.Minute))
	o := s.order(s.read(2, payloadV2(a)), "thing")
	o.Offer.Terms.MaxTimeout = time.Hour
	_, err := s.paywall.Buy(context.Background(), o)
	s.wantErr(err, payment.ErrNotSettled)
}

// A payment that stays open long after its authorization has ended costs a look now
// and then, however often it is sent again.
func TestPending_RepeatsOfAnEndedPaymentCostFewLooks(t *testing.T) {
	s := open(t, nil)
	s.blind(false, openEnds["the connection is cut"])
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clear()
	s.clock.advance(365 * 24 * time.Hour)
	looks := s.sim.Looks
	for range 500 {
		_, err := s.buy(p)
		s.wantErr(err, payment.ErrPending)
	}
	if n := s.sim.Looks - looks; n != 1 {
		t.Errorf("500 replays at once cost %d looks", n)
	}
	s.clock.advance(time.Minute)
	s.sim.CarryOut("1")
	s.mustBuy(p)
}

// A chain that cannot be read hides nothing: the same payments are looked at when
// it answers again, and those after one that it never reports in the end.
func TestCheck_WaitsForTheChain(t *testing.T) {
	s := open(t, nil)
	s.mustBuy(s.pay("1"))
	s.sim.Lose("1")
	s.clock.advance(2 * time.Hour)
	s.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog = errors.New("the node is away") })
	s.reconciler(nil).Check(context.Background())
	s.wantState(payment.Settled)
	s.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog, b.Final = nil, true })
	s.reconciler(nil).Check(context.Background())
	s.wantState(payment.Unknown)
}

// While the chain cannot be read at all, the payments that are given up are one line of
// the log, however many they are.
func TestCheck_UncheckablePaymentsAreOneLineOfTheLog(t *testing.T) {
	s := open(t, nil)
	for nonce := range 5 {
		s.mustBuy(s.pay(strconv.Itoa(nonce + 1)))
		s.clock.advance(time.Second)
	}
	s.clock.advance(26 * time.Hour)
	s.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog = errors.New("the node is away") })
	var log bytes.Buffer
	w := s.reconciler(func(o *paywall.ReconcilerOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 2 { // the second one finds none
		w.Check(context.Background())
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "payments=5") {
		t.Errorf("logged %q", lines)
	}
}

// TestCheck_LeavesTheFacilitatorsWord: without Confirm its transfers may be on no chain.
func TestCheck_LeavesTheFacilitatorsWord(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	s.mustBuy(p)
	s.sim.Lose("1")
	s.clock.advance(2 * time.Hour)
	s.sim.Set(func(b *paymenttest.Simulator) { b.Final = true })
	s.reconciler(func(o *paywall.ReconcilerOptions) { o.Confirm = false }).Check(t.Context())
	s.wantState(payment.Settled)
	s.mustBuy(p)
}

// shows is a chain that shows the same of every payment.
type shows struct {
	payment.ChainLog
	found payment.Authorization
	err   error
}

func (c shows) Authorization(context.Context, payment.Record) (payment.Authorization, error) {
	return c.found, c.err
}

// TestCheck_LooksAgainAtWhatWasUsedElsewhere: the block that showed it was not final, and may have been replaced by one
// in which the payment is ours.
func TestCheck_LooksAgainAtWhatWasUsedElsewhere(t *testing.T) {
	s := open(t, nil)
	s.blind(false, openEnds["the connection is cut"])
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clear()
	s.clock.advance(time.Minute)
	s.reconciler(func(o *paywall.ReconcilerOptions) {
		o.ChainLog = shows{s.sim, payment.Authorization{Status: payment.UsedElsewhere}, nil}
	}).Reconcile(t.Context())
	s.wantState(payment.Dead)
	s.sim.CarryOut("1")
	s.clock.advance(time.Hour + time.Minute)
	s.reconciler(nil).Check(t.Context())
	s.wantState(payment.Settled)
	s.mustBuy(p)
}

// TestCheck_PassesOverPaymentsOfAnotherNetwork: the settings have named another one since.
func TestCheck_PassesOverPaymentsOfAnotherNetwork(t *testing.T) {
	s := open(t, nil)
	s.mustBuy(s.pay("1"))
	s.clock.advance(time.Hour + time.Minute)
	s.reconciler(func(o *paywall.ReconcilerOptions) {
		o.ChainLog = shows{s.sim, payment.Authorization{}, fmt.Errorf("look: %w", payment.ErrOtherNetwork)}
	}).Check(t.Context())
	s.wantState(payment.Settled)
	s.sim.Lose("1")
	s.sim.Set(func(b *paymenttest.Simulator) { b.Final = true })
	s.reconciler(nil).Check(t.Context())
	s.wantState(payment.Settled) // it has been passed over for good
}

// A node that is being synchronized anew does not show the last hours' transfers:
// what was paid stays paid, and is looked at when the node is there.
func TestCheck_ANodeThatIsBehindHasLostNoTransfer(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	s.mustBuy(p)
	s.clock.advance(2 * time.Hour)
	late := s.reconciler(func(o *paywall.ReconcilerOptions) { // has not come as far as the payment
		o.ChainLog = shows{s.sim, payment.Authorization{Status: payment.Unused}, nil}
	})
	late.Check(context.Background())
	s.wantState(payment.Settled)
	s.mustBuy(p)
	s.sim.Lose("1")
	s.sim.Set(func(b *paymenttest.Simulator) { b.Final = true })
	s.reconciler(nil).Check(context.Background())
	s.wantState(payment.Unknown)
}

// TestCheck_ANodeThatIsBehindHidesNoPaymentThatWasPaid: it shows a dead one as it was before another carried it out.
func TestCheck_ANodeThatIsBehindHidesNoPaymentThatWasPaid(t *testing.T) {
	for _, shown := range []payment.AuthorizationStatus{payment.Unused, payment.Reverted} {
		s := open(t, nil)
		s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			return refusal(x402.ReasonInsufficientFunds), nil
		}
		_, err := s.buy(s.pay("1"))
		s.wantErr(err, payment.ErrNotSettled)
		s.sim.CarryOut("1")
		s.clock.advance(2 * time.Hour)
		s.reconciler(func(o *paywall.ReconcilerOptions) {
			o.ChainLog = shows{s.sim, payment.Authorization{Status: shown}, nil}
		}).Check(t.Context())
		s.wantState(payment.Dead)
		s.reconciler(nil).Check(t.Context())
		s.wantState(payment.Settled)
	}
}

// wantStates fails unless the payments are in these states, in the order of their
// claims.
func (s *fixture) wantStates(want ...payment.State) {
	s.Helper()
	list, err := s.ledger.List(context.Background(), payment.Filter{})
	if err != nil || len(list) != len(want) {
		s.Fatalf("the ledger has %+v (%v), want %v", list, err, want)
	}
	for i, r := range list { // newest first
		if at := len(list) - 1 - i; r.State != want[at] {
			s.Errorf("payment %d is %s, want %s", at, r.State, want[at])
		}
	}
}

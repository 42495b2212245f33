package payment_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

func refusal(reason string) x402.SettleResponse {
	no := false
	return x402.SettleResponse{Success: &no, ErrorReason: reason, Network: network, Payer: paymenttest.Buyer}
}

// openEnds are the ways in which a settling ends without saying how, each with
// the money moved and not.
var openEnds = map[string]func(moved x402.SettleResponse) (x402.SettleResponse, error){
	"the connection is cut": func(x402.SettleResponse) (x402.SettleResponse, error) {
		return x402.SettleResponse{}, paymenttest.ErrCut
	},
	"nothing is said":                  func(x402.SettleResponse) (x402.SettleResponse, error) { return x402.SettleResponse{}, nil },
	"settlement is pending":            pendingAnswer,
	"an unexpected error":              refusing(x402.ReasonUnexpectedSettle),
	"an unknown error":                 refusing(x402.ReasonUnknown),
	"a confirmation that timed out":    refusing("settle_exact_evm_transaction_confirmation_timed_out"),
	"a node that failed":               refusing("settle_exact_node_failure"),
	"a duplicate":                      refusing("duplicate_settlement"),
	"a node that was away":             refusing("rpc_error"),
	"a service that was away":          refusing("service_unavailable"),
	"a fault inside":                   refusing("internal_settlement_error"),
	"a connection that was lost":       refusing("connection_reset"),
	"a transaction not confirmed yet":  refusing("transaction_not_confirmed"),
	"yes for another amount":           lying(func(r *x402.SettleResponse) { r.Amount = "1" }),
	"a nonce that was used":            refusing(x402.ReasonNonceAlreadyUsed),
	"no without a reason":              refusing(""),
	"yes for another payer":            lying(func(r *x402.SettleResponse) { r.Payer = paymenttest.Shop }),
	"yes without a payer":              lying(func(r *x402.SettleResponse) { r.Payer = "" }),
	"yes on another network":           lying(func(r *x402.SettleResponse) { r.Network = "eip155:1" }),
	"yes without a transaction":        lying(func(r *x402.SettleResponse) { r.Transaction = "" }),
	"yes with a transaction of zeros":  lying(func(r *x402.SettleResponse) { r.Transaction = "0x" + strings.Repeat("0", 64) }),
	"yes with half a transaction hash": lying(func(r *x402.SettleResponse) { r.Transaction = "0x1234" }),
}

func pendingAnswer(moved x402.SettleResponse) (x402.SettleResponse, error) {
	r := refusal(x402.ReasonSettlementPending)
	r.Transaction = moved.Transaction
	return r, nil
}

func refusing(reason string) func(x402.SettleResponse) (x402.SettleResponse, error) {
	return func(x402.SettleResponse) (x402.SettleResponse, error) { return refusal(reason), nil }
}

func lying(change func(*x402.SettleResponse)) func(x402.SettleResponse) (x402.SettleResponse, error) {
	return func(x402.SettleResponse) (x402.SettleResponse, error) {
		yes := true
		r := x402.SettleResponse{Success: &yes, Transaction: paymenttest.Hash(7), Network: network, Payer: paymenttest.Buyer}
		change(&r)
		return r, nil
	}
}

// blind makes the chain and the facilitator useless from the settling on.
func (s *shop) blind(moves bool, end func(x402.SettleResponse) (x402.SettleResponse, error)) {
	s.bank.Set(func(b *paymenttest.Bank) {
		b.Truth = errors.New("node away")
		b.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
			var moved x402.SettleResponse
			if moves {
				moved = honest()
			}
			return end(moved)
		}
	})
}

func (s *shop) clear() {
	s.bank.Set(func(b *paymenttest.Bank) { b.Truth, b.OnSettle = nil, nil })
}

func TestAnOpenOutcomeIsPendingAndNeverARefusal(t *testing.T) {
	for name, end := range openEnds {
		for _, moves := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, moved %v", name, moves), func(t *testing.T) {
				t.Parallel()
				s := open(t, nil)
				s.blind(moves, end)
				p := s.pay("1")
				_, err := s.buy(p)
				s.wantErr(err, payment.ErrPending)
				s.wantState(payment.Unknown)
				s.wantReserved(1)
				bodies := s.bank.SettleBodies()
				if len(bodies) != 1 {
					t.Errorf("settle was asked with %d different bodies", len(bodies))
				}
				for _, times := range bodies {
					if times != 2 {
						t.Errorf("settle was asked %d times, want 2", times)
					}
				}
				_, err = s.buy(p) // still blind
				s.wantErr(err, payment.ErrPending)

				s.clear()
				s.mustBuy(p) // the truth is known: he gets what he paid for, or pays now
				s.wantTransfers(1)
				s.wantReserved(1)
				if s.works.Load() != 1 {
					t.Errorf("worked %d times", s.works.Load())
				}
			})
		}
	}
}

func TestAPaidBuyerWhoReturnsLateGetsHisAnswer(t *testing.T) {
	s := open(t, nil)
	s.blind(true, openEnds["the connection is cut"])
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clear()
	s.clock.advance(30 * 24 * time.Hour)
	s.mustBuy(p)
	s.wantTransfers(1)
}

func TestTheChainDecidesAtOnceWhereItCan(t *testing.T) {
	s := open(t, nil)
	s.blind(true, openEnds["the connection is cut"])
	s.bank.Set(func(b *paymenttest.Bank) { b.Truth = nil })
	s.mustBuy(s.pay("1"))
	s.wantTransfers(1)
}

func TestANonceSpentElsewhereBuysNothing(t *testing.T) {
	s := open(t, nil)
	s.bank.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		s.bank.Cancel("1")
		return x402.SettleResponse{}, paymenttest.ErrCut
	}
	p := s.pay("1")
	for range 2 {
		_, err := s.buy(p)
		s.wantErr(err, payment.ErrNotSettled)
		s.wantState(payment.Dead)
		s.wantReserved(0)
	}
	s.wantTransfers(0)
}

func TestADefiniteRefusalIsNotChargedAndGivesTheSettlementBack(t *testing.T) {
	for _, reason := range []string{x402.ReasonInsufficientFunds, "invalid_exact_evm_transaction_simulation_failed", "kyt_risk_detected"} {
		s := open(t, nil)
		s.bank.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			return refusal(reason), nil
		}
		_, err := s.buy(s.pay("1"))
		var no *payment.Refusal
		if !errors.As(err, &no) || !errors.Is(err, payment.ErrNotSettled) || no.Reason != reason {
			t.Errorf("%s: got %v", reason, err)
		}
		if len(s.bank.SettleBodies()) != 1 {
			t.Errorf("%s: settle was repeated", reason)
		}
		s.wantState(payment.Dead)
		s.wantReserved(0)
	}
}

func TestARefusedPaymentThatSomebodyElseCarriesOutIsPaid(t *testing.T) {
	for _, when := range []string{"before the refusal", "after the refusal"} {
		s := open(t, nil)
		p := s.pay("1")
		s.bank.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			if when == "before the refusal" {
				s.bank.CarryOut("1")
			}
			return refusal("invalid_exact_evm_transaction_simulation_failed"), nil
		}
		_, err := s.buy(p)
		if when == "after the refusal" {
			s.wantErr(err, payment.ErrNotSettled)
			s.bank.CarryOut("1")
		}
		s.mustBuy(p)
		s.wantTransfers(1)
		s.wantReserved(1)
		s.wantState(payment.Settled)
	}
}

func TestWithoutAChainTheFacilitatorIsAskedAgain(t *testing.T) {
	s := open(t, func(o *payment.Options) { o.Truth = nil })
	s.blind(false, openEnds["the connection is cut"])
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clear()
	s.mustBuy(p)
	s.wantTransfers(1)
}

func TestWithoutAChainARepeatedNoIsNoProof(t *testing.T) {
	s := open(t, func(o *payment.Options) { o.Truth = nil })
	s.blind(true, openEnds["the connection is cut"])
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clear() // the honest facilitator now says: nonce used
	for range 2 {
		_, err = s.buy(p)
		s.wantErr(err, payment.ErrPending)
	}
	s.wantState(payment.Unknown)
}

func TestTheReconcilerFinishesWhatNobodyComesBackFor(t *testing.T) {
	for name, c := range map[string]struct {
		moves    bool
		final    bool
		cancel   bool
		want     payment.State
		reserved int
	}{
		"paid":                      {moves: true, want: payment.Settled, reserved: 1},
		"unspent for good":          {final: true, want: payment.Dead},
		"unspent, but not for good": {want: payment.Unknown, reserved: 1},
		"cancelled":                 {cancel: true, want: payment.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			s.blind(c.moves, openEnds["the connection is cut"])
			_, err := s.buy(s.pay("1"))
			s.wantErr(err, payment.ErrPending)
			s.clear()
			s.clock.advance(2 * time.Minute)
			s.bank.Set(func(b *paymenttest.Bank) { b.Final = c.final })
			if c.cancel {
				s.bank.Cancel("1")
			}
			asked := len(s.bank.Bodies)
			s.gate.Reconcile(context.Background())
			s.wantState(c.want)
			s.wantReserved(c.reserved)
			if len(s.bank.Bodies) != asked {
				t.Error("the reconciler asked to settle, though nobody waited")
			}
		})
	}
}

func TestAReplicaThatDiesLeavesItsSettlementsToTheOthers(t *testing.T) {
	s := open(t, nil)
	dead := s.replica(nil)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	s.bank.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		honest()
		<-hang
		return x402.SettleResponse{}, paymenttest.ErrCut
	}
	p := s.pay("1")
	go func() { _, _ = dead.Buy(context.Background(), s.order(p, "thing")) }()
	for s.bank.Transfers() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.clock.advance(6 * time.Hour) // its life signs have ended
	s.clear()
	if err := s.ledger.Beat(context.Background(), "somebody", s.clock.now()); err != nil {
		t.Fatal(err)
	}
	s.mustBuy(p)
	s.wantTransfers(1)
}

func TestAFacilitatorThatLiesIsNotBelievedWhereTheChainConfirms(t *testing.T) {
	s := open(t, func(o *payment.Options) { o.Confirm, o.SettleTimeout = true, 50*time.Millisecond })
	s.mustBuy(s.pay("1"))
	s.bank.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		yes := true
		return x402.SettleResponse{Success: &yes, Transaction: paymenttest.Hash(7), Network: network, Payer: paymenttest.Buyer}, nil
	}
	p := s.pay("2")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	_, err = s.buy(p) // it lies again to who comes back
	s.wantErr(err, payment.ErrPending)
	s.wantTransfers(1)
	s.clear()
	s.mustBuy(p)
	s.wantTransfers(2)
}

package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
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
	"an empty answer":                  func(x402.SettleResponse) (x402.SettleResponse, error) { return x402.SettleResponse{}, nil },
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
	"a list's word, with a hash":       failing(x402.ReasonInsufficientFunds, paymenttest.Hash(7)),
	"a list's word, with half a hash":  failing(x402.ReasonInsufficientFunds, "0x1234"),
	"a transaction that failed":        failing("invalid_exact_evm_transaction_failed", paymenttest.Hash(7)),
	"no without a reason":              refusing(""),
	"yes for another payer":            lying(func(r *x402.SettleResponse) { r.Payer = paymenttest.Seller }),
	"yes without a payer":              lying(func(r *x402.SettleResponse) { r.Payer = "" }),
	"yes on another network":           lying(func(r *x402.SettleResponse) { r.Network = "eip155:1" }),
	"yes without a transaction":        lying(func(r *x402.SettleResponse) { r.Transaction = "" }),
	"yes with a transaction of zeros":  lying(func(r *x402.SettleResponse) { r.Transaction = "0x" + strings.Repeat("0", 64) }),
	"yes with half a transaction hash": lying(func(r *x402.SettleResponse) { r.Transaction = "0x1234" }),
}

// What facilitators return after a broadcast whose end they did not see, and what
// only looks like a reason that arises before one.
func init() {
	for _, reason := range []string{
		"invalid_exact_evm_transaction_failed", "invalid_exact_evm_failed_to_execute_transfer", "invalid_exact_evm_failed_to_get_receipt",
		"invalid_exact_evm_transfer_event_mismatch", "settle_exact_failed_onchain", "smart_wallet_deployment_failed", "invalid_transaction_state",
		"request timed out", "Timeout waiting", "context deadline exceeded", "did not confirm in time", "TIMED OUT", "ECONNRESET",
		"insufficient_funds_for_gas", "relayer insufficient funds", "invalid_exact_evm_relayer_insufficient_funds", "not insufficient_funds",
		"transaction_simulation_failed_after_send", "invalid_exact_evm_payload_invalid_exact_evm_signature", "some new word",
	} {
		openEnds["the word "+reason] = refusing(reason)
		openEnds["a hash with "+reason] = failing(reason, paymenttest.Hash(7))
	}
}

// failing names a transaction.
func failing(reason, transaction string) func(x402.SettleResponse) (x402.SettleResponse, error) {
	return func(x402.SettleResponse) (x402.SettleResponse, error) {
		r := refusal(reason)
		r.Transaction = transaction
		return r, nil
	}
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
func (s *fixture) blind(moves bool, end func(x402.SettleResponse) (x402.SettleResponse, error)) {
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.ChainLog = errors.New("node away")
		b.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
			var moved x402.SettleResponse
			if moves {
				moved = honest()
			}
			return end(moved)
		}
	})
}

func (s *fixture) clear() {
	s.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog, b.OnSettle = nil, nil })
}

func TestUnknown_AnOpenOutcomeIsNeverARefusal(t *testing.T) {
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
				reserved := 2 // the retry may have made a transaction more
				if name == "settlement is pending" || name == "a duplicate" || name == "a nonce that was used" {
					reserved = 1
				}
				s.wantReserved(reserved)
				bodies := s.sim.SettleBodies()
				if len(bodies) != 1 {
					t.Errorf("settle was called with %d different bodies", len(bodies))
				}
				for _, times := range bodies {
					if times != 2 {
						t.Errorf("settle was called %d times, want 2", times)
					}
				}
				_, err = s.buy(p) // still blind
				s.wantErr(err, payment.ErrPending)

				s.clear()
				if !moves {
					s.clock.advance(6 * time.Second) // the facilitator is not called sooner
					reserved++
				}
				s.mustBuy(p) // the outcome is known: they get what they paid for, or pay now
				s.wantTransfers(1)
				s.wantReserved(reserved)
				if s.works.Load() != 1 {
					t.Errorf("worked %d times", s.works.Load())
				}
			})
		}
	}
}

func TestUnknown_ABuyerWhoReturnsLateGetsTheAnswer(t *testing.T) {
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

func TestUnknown_TheChainDecidesAtOnceWhereItCan(t *testing.T) {
	s := open(t, nil)
	s.blind(true, openEnds["the connection is cut"])
	s.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog = nil })
	s.mustBuy(s.pay("1"))
	s.wantTransfers(1)
}

func TestUnknown_ANonceSpentBeforeBuysNothing(t *testing.T) {
	s := open(t, nil)
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		s.sim.Cancel("1")
		return x402.SettleResponse{}, paymenttest.ErrCut
	}
	p := s.pay("1")
	for range 2 {
		_, err := s.buy(p)
		s.wantErr(err, payment.ErrNotSettled)
		s.wantState(payment.Dead)
		s.wantReserved(1) // the facilitator may have made a transaction that failed
	}
	s.wantTransfers(0)
}

func TestUnknown_ADefiniteRefusalReturnsTheSettlement(t *testing.T) {
	for _, reason := range []string{
		x402.ReasonInsufficientFunds, "invalid_exact_evm_transaction_simulation_failed", "kyt_risk_detected",
		"Insufficient Funds", "INVALID-EXACT-EVM-PAYLOAD-SIGNATURE", "invalid_exact_evm_signature", "invalid_exact_evm_payload",
	} {
		s := open(t, nil)
		s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			return refusal(reason), nil
		}
		_, err := s.buy(s.pay("1"))
		var no *payment.Refusal
		if !errors.As(err, &no) || !errors.Is(err, payment.ErrNotSettled) || no.Reason != reason {
			t.Errorf("%s: got %v", reason, err)
		}
		if len(s.sim.SettleBodies()) != 1 {
			t.Errorf("%s: settle was retried", reason)
		}
		s.wantState(payment.Dead)
		s.wantReserved(0)
	}
}

func TestUnknown_ARevertEndsThePaymentAndUsesTheSettlement(t *testing.T) {
	for _, confirm := range []bool{false, true} {
		s := open(t, func(o *paywall.Options) { o.Confirm, o.SettleTimeout = confirm, 50*time.Millisecond })
		var hash string
		s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			hash = s.sim.Revert("1")
			r := refusal("invalid_exact_evm_transaction_failed")
			r.Transaction = hash
			return r, nil
		}
		p := s.pay("1")
		for range 2 {
			_, err := s.buy(p)
			var no *payment.Refusal
			if !errors.As(err, &no) || !errors.Is(err, payment.ErrNotSettled) || no.Transaction != hash || no.Reason != "transaction_reverted" {
				t.Errorf("got %v", err)
			}
		}
		if len(s.sim.Bodies) != 1 {
			t.Errorf("settle was called %d times", len(s.sim.Bodies))
		}
		s.wantState(payment.Dead)
		s.wantReserved(1)
	}
}

// When more than one transaction may have been made, one that failed is no proof
// that the other will.
func TestUnknown_ARevertIsNoProofOfAnotherTransaction(t *testing.T) {
	s := open(t, nil)
	calls := 0
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		if calls++; calls == 1 {
			return x402.SettleResponse{}, paymenttest.ErrCut // it waits in the pool
		}
		r := refusal("invalid_exact_evm_transaction_failed")
		r.Transaction = s.sim.Revert("1")
		return r, nil
	}
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.sim.CarryOut("1")
	s.mustBuy(p)
	s.wantTransfers(1)
}

func TestUnknown_ARefusedPaymentThatOthersCarryOutIsPaid(t *testing.T) {
	for _, when := range []string{"before the refusal", "after the refusal"} {
		s := open(t, nil)
		p := s.pay("1")
		s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			if when == "before the refusal" {
				s.sim.CarryOut("1")
			}
			return refusal("invalid_exact_evm_transaction_simulation_failed"), nil
		}
		_, err := s.buy(p)
		if when == "after the refusal" {
			s.wantErr(err, payment.ErrNotSettled)
			s.sim.CarryOut("1")
		}
		s.mustBuy(p)
		s.wantTransfers(1)
		s.wantReserved(1)
		s.wantState(payment.Settled)
	}
}

func TestUnknown_WithoutAChainTheFacilitatorIsCalledAgain(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.ChainLog = nil })
	s.blind(false, openEnds["the connection is cut"])
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clear()
	s.clock.advance(6 * time.Second)
	s.mustBuy(p)
	s.wantTransfers(1)
}

func TestUnknown_WithoutAChainARepeatedNoIsNoProof(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.ChainLog = nil })
	s.blind(true, openEnds["the connection is cut"])
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clear() // the honest facilitator now returns: nonce used
	for range 2 {
		_, err = s.buy(p)
		s.wantErr(err, payment.ErrPending)
	}
	s.wantState(payment.Unknown)
}

// TestUnknown_WithoutAChainANoToTheSecondCallIsNoProof: the payer may have no funds because the first call moved them.
func TestUnknown_WithoutAChainANoToTheSecondCallIsNoProof(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.ChainLog = nil })
	calls := 0
	s.blind(true, func(r x402.SettleResponse) (x402.SettleResponse, error) {
		if calls++; calls == 1 {
			return openEnds["the connection is cut"](r)
		}
		return refusing(x402.ReasonInsufficientFunds)(r)
	})
	_, err := s.buy(s.pay("1"))
	s.wantErr(err, payment.ErrPending)
	s.wantState(payment.Unknown)
	if calls != 2 {
		t.Errorf("settle was called %d times", calls)
	}
}

func TestReconcile_FinishesWhatNoClientComesBackFor(t *testing.T) {
	for name, c := range map[string]struct {
		moves    bool
		final    bool
		cancel   bool
		want     payment.State
		reserved int
	}{
		"paid":                      {moves: true, want: payment.Settled, reserved: 2},
		"unspent for good":          {final: true, want: payment.Dead},
		"unspent, but not for good": {want: payment.Unknown, reserved: 2},
		"cancelled":                 {cancel: true, want: payment.Dead, reserved: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			s.blind(c.moves, openEnds["the connection is cut"])
			_, err := s.buy(s.pay("1"))
			s.wantErr(err, payment.ErrPending)
			s.clear()
			s.clock.advance(2 * time.Minute)
			s.sim.Set(func(b *paymenttest.Simulator) { b.Final = c.final })
			if c.cancel {
				s.sim.Cancel("1")
			}
			before := len(s.sim.Bodies)
			s.reconciler(nil).Reconcile(context.Background())
			s.wantState(c.want)
			s.wantReserved(c.reserved)
			if len(s.sim.Bodies) != before {
				t.Error("the reconciler called for a settlement, though no client waited")
			}
		})
	}
}

// slowRevert is a chain on which the transaction has failed, and which is slow: meanwhile something happens.
type slowRevert struct {
	payment.ChainLog
	meanwhile func()
}

func (c slowRevert) Authorization(context.Context, payment.Record) (payment.Authorization, error) {
	c.meanwhile()
	return payment.Authorization{Status: payment.Reverted}, nil
}

// TestReconcile_ARevertSeenBeforeARetryEndsNothing: the retry may have made another transaction.
func TestReconcile_ARevertSeenBeforeARetryEndsNothing(t *testing.T) {
	for _, retried := range []bool{false, true} {
		s := open(t, func(o *paywall.Options) { o.Confirm, o.SettleTimeout = true, 20*time.Millisecond })
		s.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog = errors.New("node away") })
		_, err := s.buy(s.pay("1")) // the facilitator says yes, and the chain does not show it
		s.wantErr(err, payment.ErrPending)
		open := s.wantState(payment.Unknown)
		again := payment.Event{
			Kind: payment.EventRetry, Month: open.Month, Retry: payment.Retry{Retries: open.Retries, Limit: 1000},
		}
		s.clock.advance(time.Minute)
		s.reconciler(func(o *paywall.ReconcilerOptions) {
			o.ChainLog = slowRevert{s.sim, func() {
				if !retried {
					return
				}
				if _, err := s.ledger.Apply(t.Context(), open.Key, again); err != nil {
					t.Error(err)
				}
			}}
		}).Reconcile(t.Context())
		s.wantState(map[bool]payment.State{false: payment.Dead, true: payment.Unknown}[retried])
	}
}

func TestReconcile_TakesOverFromAReplicaThatDies(t *testing.T) {
	s := open(t, nil)
	dead := s.replica(nil)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	s.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		honest()
		<-hang
		return x402.SettleResponse{}, paymenttest.ErrCut
	}
	p := s.pay("1")
	go func() { _, _ = dead.Buy(context.Background(), s.order(p, "thing")) }()
	for s.sim.Transfers() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.clock.advance(6 * time.Hour) // its life signs have ended
	s.clear()
	if err := s.ledger.Heartbeat(context.Background(), "another", s.clock.now()); err != nil {
		t.Fatal(err)
	}
	s.mustBuy(p)
	s.wantTransfers(1)
}

func TestUnknown_ALyingFacilitatorIsNotBelieved(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.Confirm, o.SettleTimeout = true, 50*time.Millisecond })
	s.mustBuy(s.pay("1"))
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		yes := true
		return x402.SettleResponse{Success: &yes, Transaction: paymenttest.Hash(7), Network: network, Payer: paymenttest.Buyer}, nil
	}
	p := s.pay("2")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clock.advance(6 * time.Second)
	_, err = s.buy(p) // it lies again to who comes back
	s.wantErr(err, payment.ErrPending)
	s.wantTransfers(1)
	s.clear()
	s.clock.advance(6 * time.Second)
	s.mustBuy(p)
	s.wantTransfers(2)
}

// endings remembers the outcomes that were written.
type endings struct {
	payment.Ledger
	written []payment.Outcome
}

func (e *endings) Apply(ctx context.Context, k payment.Key, event payment.Event) (payment.Outcome, error) {
	e.written = append(e.written, event.Outcome)
	return e.Ledger.Apply(ctx, k, event)
}

// TestUnknown_WithoutAChainTheEndOfASaleIsDurable, and where the facilitator's transfers may be on no chain.
func TestUnknown_WithoutAChainTheEndOfASaleIsDurable(t *testing.T) {
	for _, c := range []struct{ chain, confirm, durable bool }{{true, true, false}, {true, false, true}, {false, false, true}} {
		s := open(t, nil)
		ledger := &endings{Ledger: s.ledger}
		replica := s.replica(func(o *paywall.Options) {
			if o.Ledger, o.Confirm = ledger, c.confirm; !c.chain {
				o.ChainLog = nil
			}
		})
		if _, err := replica.Buy(context.Background(), s.order(s.pay("1"), "thing")); err != nil {
			t.Fatal(err)
		}
		if len(ledger.written) != 1 || ledger.written[0].Durable != c.durable {
			t.Errorf("%+v: written were %+v", c, ledger.written)
		}
	}
}

func TestDead_IsLookedUpSeldomAndNotOnceFinal(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		cancel bool
		looks  int32
	}{
		"a refusal":       {reason: x402.ReasonInsufficientFunds, looks: 2 + 5}, // two before the first answer
		"spent elsewhere": {reason: x402.ReasonInsufficientFunds, cancel: true, looks: 1},
	} {
		s := open(t, nil)
		var looks atomic.Int32
		replica := s.replica(func(o *paywall.Options) { o.ChainLog = countedChainLog{s.sim, &looks} })
		s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			if c.cancel {
				s.sim.Cancel("1")
			}
			return refusal(c.reason), nil
		}
		p := s.pay("1")
		for range 500 {
			_, err := replica.Buy(context.Background(), s.order(p, "thing"))
			s.wantErr(err, payment.ErrNotSettled)
			s.clock.advance(600 * time.Millisecond) // five minutes in all
		}
		if looks.Load() != c.looks {
			t.Errorf("%s: the chain was queried %d times, want %d", name, looks.Load(), c.looks)
		}
	}
}

// What the ledger cannot remember would be looked up at every replay.
func TestDead_IsNotLookedUpWhileTheLedgerCannotRemember(t *testing.T) {
	s := open(t, nil)
	var looks atomic.Int32
	replica := s.replica(func(o *paywall.Options) {
		o.Ledger, o.ChainLog = &brokenLedger{s.ledger, "look"}, countedChainLog{s.sim, &looks}
	})
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return refusal(x402.ReasonInsufficientFunds), nil
	}
	p := s.pay("1")
	_, err := replica.Buy(context.Background(), s.order(p, "thing"))
	s.wantErr(err, payment.ErrNotSettled)
	before := looks.Load()
	for range 10 {
		_, err := replica.Buy(context.Background(), s.order(p, "thing"))
		s.wantErr(err, payment.ErrLedger)
	}
	if looks.Load() != before {
		t.Errorf("the chain was queried %d times", looks.Load()-before)
	}
}

// countedChainLog counts the looks at the chain.
type countedChainLog struct {
	payment.ChainLog
	looks *atomic.Int32
}

func (c countedChainLog) Authorization(ctx context.Context, q payment.Record) (payment.Authorization, error) {
	c.looks.Add(1)
	return c.ChainLog.Authorization(ctx, q)
}

// A buyer who sends an open payment again and again has it settled a few times,
// with a pause and a reservation each, and not after its end.
func TestPending_ASettlementIsNotRequestedAtEveryRepeat(t *testing.T) {
	for _, chain := range []bool{true, false} {
		s := open(t, func(o *paywall.Options) {
			if !chain {
				o.ChainLog = nil
			}
		})
		s.blind(false, openEnds["the connection is cut"])
		p := s.pay("1")
		var pending *payment.PendingError
		for i := range 200 {
			_, err := s.buy(p)
			if !errors.As(err, &pending) || pending.After > 5*time.Second || i == 0 && pending.After != 5*time.Second {
				t.Fatalf("got %v, after %v", err, pending.After)
			}
			s.clock.advance(time.Second)
		}
		s.clock.advance(40 * 24 * time.Hour)
		_, err := s.buy(p)
		s.wantErr(err, payment.ErrPending)
		if len(s.sim.Bodies) != 6 {
			t.Errorf("settle was called %d times", len(s.sim.Bodies))
		}
		status, err := s.ledger.QuotaStatus(context.Background(), "2026-11")
		if err != nil || status.Reserved != 6 {
			t.Errorf("%d settlements are reserved, %v", status.Reserved, err)
		}
	}
}

// TestPending_ASettlementIsRequestedAsLongAsItsWindowAllows: the facilitator wants six seconds of it.
func TestPending_ASettlementIsRequestedAsLongAsItsWindowAllows(t *testing.T) {
	for _, c := range []struct {
		left  time.Duration
		calls int
	}{{payment.SettleMargin + time.Second, 3}, {payment.SettleMargin, 2}} {
		s := open(t, nil)
		s.blind(false, openEnds["the connection is cut"])
		p := s.pay("1")
		_, err := s.buy(p)
		s.wantErr(err, payment.ErrPending)
		s.clock.advance(p.ValidBefore().Sub(s.clock.now()) - c.left)
		_, err = s.buy(p)
		s.wantErr(err, payment.ErrPending)
		if len(s.sim.Bodies) != c.calls {
			t.Errorf("with %v left settle was called %d times, want %d", c.left, len(s.sim.Bodies), c.calls)
		}
	}
}

// TestPending_NoSettlementIsRequestedAgainstTheTermsOfToday: the payment is open, whatever it costs now.
func TestPending_NoSettlementIsRequestedAgainstTheTermsOfToday(t *testing.T) {
	s := open(t, nil)
	s.blind(false, openEnds["the connection is cut"])
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.clock.advance(6 * time.Second)
	dearer := s.order(p, "thing")
	dearer.Offer.Terms.Amount = "20000"
	_, err = s.paywall.Buy(t.Context(), dearer)
	s.wantErr(err, payment.ErrPending)
	if len(s.sim.Bodies) != 2 {
		t.Errorf("settle was called %d times, want 2", len(s.sim.Bodies))
	}
	_, err = s.buy(p)
	s.wantErr(err, payment.ErrPending)
	if len(s.sim.Bodies) != 3 {
		t.Errorf("at its own terms settle was called %d times, want 3", len(s.sim.Bodies))
	}
}

// A moment of the clock that is still to come is no reason to wait for it.
func TestPending_AClockStepPutsOffNoRepeat(t *testing.T) {
	s := open(t, nil)
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		s.clock.advance(10 * time.Minute)
		return x402.SettleResponse{}, paymenttest.ErrCut
	}
	p := s.pay("1")
	_, err := s.buy(p)
	s.wantErr(err, payment.ErrPending)
	s.sim.OnSettle = nil
	s.clock.advance(-10*time.Minute + time.Second)
	_, err = s.buy(p)
	s.wantErr(err, nil)
}

func TestPending_ARepeatAtTheLimitIsNotMade(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.FreeSettlements = 1 })
	s.blind(false, openEnds["the connection is cut"])
	p := s.pay("1")
	for range 3 {
		_, err := s.buy(p)
		s.wantErr(err, payment.ErrPending)
		s.clock.advance(6 * time.Second)
	}
	if len(s.sim.Bodies) != 1 {
		t.Errorf("settle was called %d times", len(s.sim.Bodies))
	}
	s.wantReserved(1)
}

// A facilitator at its own limit is not called for a buyer who returns either, and what it would
// not do uses up no settlement and none of their retries (VERIFIER-6.3).
func TestPending_ARepeatWaitsForTheFacilitatorsPause(t *testing.T) {
	s := open(t, nil)
	s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return x402.SettleResponse{}, &payment.LaterError{Err: payment.ErrFacilitatorLimit, After: 30 * time.Second}
	}
	p := s.pay("1")
	for range 5 {
		_, err := s.buy(p)
		s.wantErr(err, payment.ErrPending)
		s.clock.advance(6 * time.Second)
	}
	if len(s.sim.Bodies) != 1 {
		t.Errorf("settle was called %d times", len(s.sim.Bodies))
	}
	s.wantReserved(1)
	s.sim.OnSettle = nil
	s.mustBuy(p) // the pause is over
	s.wantTransfers(1)
	s.wantReserved(2)
}

// stuckChainLog never answers for some payments.
type stuckChainLog struct{ payment.ChainLog }

func (s stuckChainLog) Authorization(ctx context.Context, q payment.Record) (payment.Authorization, error) {
	if strings.HasSuffix(q.Key.Nonce, "7") {
		<-ctx.Done()
		return payment.Authorization{}, ctx.Err()
	}
	return payment.Authorization{Status: payment.Expired}, nil
}

func TestReconcile_UndecidablePaymentsHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		s.ledger = paymenttest.Ledger(t, time.Now)
		reconciler := s.reconciler(func(o *paywall.ReconcilerOptions) { o.ChainLog, o.Now = stuckChainLog{s.sim}, time.Now })
		for i := range 150 {
			key := payment.Key{Network: network, Asset: "a", Payer: "p", Nonce: fmt.Sprint(i)}
			r := payment.Record{Key: key, Owner: "me", Deadline: time.Now(), Amount: "1"}
			_, _, err := s.ledger.Claim(t.Context(), r)
			_, _, beginErr := s.ledger.Begin(t.Context(), key, "me", payment.Settlement{Answer: []byte("{}"), Month: "2026-11", Limit: 1000})
			_, finishErr := s.ledger.Apply(t.Context(), key, payment.Verdict(payment.Outcome{State: payment.Unknown}))
			if err := errors.Join(err, beginErr, finishErr); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		reconciler.Run(ctx)
		dead, err := s.ledger.List(t.Context(), payment.Filter{State: payment.Dead})
		if err != nil || len(dead) != 135 {
			t.Errorf("%d are decided, want 135, %v", len(dead), err)
		}
		if err := s.paywall.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

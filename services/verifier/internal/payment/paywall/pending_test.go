package paywall_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// The clock stands still in these tests: what is written is not written because
// a deadline has passed.

func TestPending_AnUnwrittenEndDoesNotKeepItsBuyerOut(t *testing.T) {
	s := open(t, nil)
	ledger := &brokenLedger{s.ledger, "finish"}
	replica := s.replica(func(o *paywall.Options) { o.Ledger = ledger })
	p := s.pay("1")
	if _, err := replica.Buy(context.Background(), s.order(p, "thing")); err != nil {
		t.Fatal(err)
	}
	s.wantState(payment.Settling)
	_, err := replica.Buy(context.Background(), s.order(p, "thing"))
	s.wantErr(err, payment.ErrLedger)

	ledger.broken = ""
	if sale, err := replica.Buy(context.Background(), s.order(p, "thing")); err != nil || sale.Answer.String() != "the thing" {
		t.Fatalf("got %q, %v", sale.Answer, err)
	}
	s.wantState(payment.Settled)
	s.wantTransfers(1)
}

func TestPending_AnUnreleasedClaimDoesNotKeepItsBuyerOut(t *testing.T) {
	s := open(t, nil)
	ledger, replica, p := s.pendingRelease()
	s.wantState(payment.Working)
	_, err := replica.Buy(context.Background(), s.order(p, "thing"))
	s.wantErr(err, payment.ErrLedger)

	ledger.broken = ""
	if _, err := replica.Buy(context.Background(), s.order(p, "thing")); err != nil {
		t.Fatal(err)
	}
	s.wantTransfers(1)
}

func TestPending_AnUnwrittenEndIsWrittenWithoutAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		ledger := &brokenLedger{s.ledger, "finish"}
		replica := s.replica(func(o *paywall.Options) { o.Ledger = ledger })
		if _, err := replica.Buy(t.Context(), s.order(s.pay("1"), "thing")); err != nil {
			t.Fatal(err)
		}
		ledger.broken = ""
		s.settlesPending(replica)
	})
}

// Without a node of the payment network no other process could find out, however long the ledger is away.
func TestPending_AYesIsKeptWhereTheChainIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		ledger := &brokenLedger{s.ledger, "finish"}
		replica := s.replica(func(o *paywall.Options) { o.Ledger, o.ChainLog = ledger, nil })
		if _, err := replica.Buy(t.Context(), s.order(s.pay("1"), "thing")); err != nil {
			t.Fatal(err)
		}
		s.clock.advance(24 * time.Hour)
		s.wantState(payment.Unknown)
		ledger.broken = ""
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		replica.Run(ctx)
		if r := s.wantState(payment.Settled); r.Transaction != paymenttest.Hash(1) {
			t.Errorf("the ledger has %+v", r)
		}
		if err := errors.Join(replica.Close(context.Background()), s.paywall.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// TestPending_AYesIsKeptWhereItIsOnNoChain: the chain that is read calls the payment expired.
func TestPending_AYesIsKeptWhereItIsOnNoChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		ledger := &brokenLedger{s.ledger, "finish"}
		replica := s.replica(func(o *paywall.Options) { o.Ledger = ledger })
		p := s.pay("1")
		if _, err := replica.Buy(t.Context(), s.order(p, "thing")); err != nil {
			t.Fatal(err)
		}
		s.sim.Lose("1")
		s.sim.Set(func(b *paymenttest.Simulator) { b.Final = true })
		s.clock.advance(24 * time.Hour)
		s.reconciler(func(o *paywall.ReconcilerOptions) { o.Confirm = false }).Reconcile(t.Context())
		s.wantState(payment.Dead)
		ledger.broken = ""
		s.settlesPending(replica)
	})
}

// settlesPending has a paywall write for a minute what is pending, by which the payment is settled, and closes all.
func (s *fixture) settlesPending(replica *paywall.Paywall) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	replica.Run(ctx)
	s.wantState(payment.Settled)
	if err := errors.Join(replica.Close(context.Background()), s.paywall.Close(context.Background())); err != nil {
		s.Error(err)
	}
}

// Without a node of the payment network nothing but this process knows that the payment was settled.
func TestClose_WritesWhatIsPending(t *testing.T) {
	s := open(t, nil)
	ledger := &brokenLedger{s.ledger, "finish"}
	replica := s.replica(func(o *paywall.Options) { o.Ledger, o.ChainLog = ledger, nil })
	if _, err := replica.Buy(context.Background(), s.order(s.pay("1"), "thing")); err != nil {
		t.Fatal(err)
	}
	ledger.broken = ""
	if err := replica.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.wantState(payment.Settled)
}

func TestPending_AReleaseLeavesAnothersClaimAlone(t *testing.T) {
	s := open(t, nil)
	ledger, replica, _ := s.pendingRelease()
	s.clock.advance(10 * time.Minute)
	ledger.broken = ""
	p := s.pay("1") // the same nonce, with a new window
	if _, err := replica.Buy(context.Background(), s.order(p, "thing")); err != nil {
		t.Fatal(err)
	}
	s.wantTransfers(1)
}

// pendingRelease returns a paywall whose ledger still refuses the pending
// release of the claim on p: the work that p paid for has failed.
func (s *fixture) pendingRelease() (ledger *brokenLedger, replica *paywall.Paywall, p payment.Payment) {
	s.Helper()
	ledger = &brokenLedger{s.ledger, "release"}
	replica = s.replica(func(o *paywall.Options) { o.Ledger = ledger })
	p = s.pay("1")
	fails := s.order(p, "thing")
	fault := errors.New("the node is away")
	fails.Work = func(context.Context) ([]byte, error) { return nil, fault }
	_, err := replica.Buy(context.Background(), fails)
	s.wantErr(err, fault)
	return ledger, replica, p
}

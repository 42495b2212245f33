package paywall_test

import (
	"context"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

func TestDecide_RefusesWhatTheChainContradicts(t *testing.T) {
	settled := payment.Decision{To: payment.Settled, Transaction: paymenttest.Hash(1), By: "root", Note: "seen"}
	dead := payment.Decision{To: payment.Dead, By: "root", Note: "never came"}
	other := settled
	other.Transaction = paymenttest.Hash(2)
	nameless := settled
	nameless.Transaction = ""
	for name, c := range map[string]struct {
		how                                                 payment.Decision
		moves, early, final, away, pruned, blind, unchecked bool
		want                                                payment.State
	}{
		"paid":                              {how: settled, moves: true, want: payment.Settled},
		"paid by another transaction":       {how: other, moves: true, want: payment.Unknown},
		"settled, but the chain shows none": {how: settled, want: payment.Unknown},
		"settled without a hash":            {how: nameless, moves: true, want: payment.Unknown},
		"settled, the chain cannot be read": {how: settled, away: true, want: payment.Unknown},
		"paid, but its log is gone":         {how: settled, moves: true, pruned: true, want: payment.Settled},
		"paid by another, its log is gone":  {how: other, moves: true, pruned: true, want: payment.Unknown},
		"settled, no chain is known":        {how: settled, blind: true, want: payment.Unknown},
		"settled, by an explorer":           {how: settled, blind: true, unchecked: true, want: payment.Settled},
		"settled unchecked beside a node":   {how: settled, moves: true, unchecked: true, want: payment.Unknown},
		"dead, but paid":                    {how: dead, moves: true, want: payment.Unknown},
		"dead, but it may still be spent":   {how: dead, early: true, want: payment.Unknown},
		"dead":                              {how: dead, final: true, want: payment.Dead},
		"dead, the chain cannot be read":    {how: dead, away: true, want: payment.Dead},
		"dead, no chain is known":           {how: dead, blind: true, want: payment.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			s.blind(c.moves, openEnds["the connection is cut"])
			p := s.pay("1")
			_, err := s.buy(p)
			s.wantErr(err, payment.ErrPending)
			s.clear()
			if !c.early {
				s.clock.advance(time.Minute + paywall.DecidableAfter)
			}
			s.sim.Set(func(b *paymenttest.Simulator) {
				if b.Final = c.final; c.away {
					b.ChainLog = errors.New("node away")
				}
			})
			var network paywall.PaymentNetwork = transfers{s.sim}
			switch {
			case c.pruned:
				network = transfers{pruned{s.sim}}
			case c.blind:
				network = nil
			}
			_, err = paywall.Decide(context.Background(), s.ledger, network, s.clock.now(), s.wantState(payment.Unknown), c.how, c.unchecked)
			if (err == nil) != (c.want != payment.Unknown) {
				t.Errorf("got %v", err)
			}
			s.wantState(c.want)
			if c.want == payment.Settled {
				if sale, err := s.buy(p); err != nil || sale.Transaction != settled.Transaction {
					t.Errorf("the buyer gets %+v, %v", sale, err)
				}
			}
		})
	}
}

// transfers is a payment network whose transfers are not read.
type transfers struct{ payment.ChainLog }

func (transfers) Moved(context.Context, string, string, string, string) (*big.Int, error) {
	return nil, errors.New("not asked for")
}

// pruned is a network whose nodes have receipts, and no logs of the time any more.
type pruned struct{ payment.ChainLog }

func (p pruned) Authorization(ctx context.Context, r payment.Record) (payment.Authorization, error) {
	found, err := p.ChainLog.Authorization(ctx, r)
	if err == nil && found.Status == payment.PaidToUs && found.Transaction != r.Transaction {
		err = errors.New("no log")
	}
	return found, err
}

// TestDecide_ReportsThatTheMoneyIsAnotherCopys: the ledger then writes that this one is dead.
func TestDecide_ReportsThatTheMoneyIsAnotherCopys(t *testing.T) {
	s := open(t, nil)
	s.believing(cutOff)
	_, err := s.buyThing(s.forged("1"), "other")
	s.wantErr(err, payment.ErrPending)
	copied := s.wantState(payment.Unknown)
	s.mustBuy(s.pay("1"))
	_, err = paywall.Decide(t.Context(), s.ledger, nil, s.clock.now(), copied, payment.Decision{
		To: payment.Settled, Transaction: paymenttest.Hash(1), By: "op", Note: "seen",
	}, true)
	s.wantErr(err, paywall.ErrContradicted)
	if got, err := s.ledger.Get(t.Context(), copied.Key); err != nil || got.Reason != payment.ReasonOtherCopy {
		t.Errorf("got %+v, %v", got, err)
	}
}

package paywall_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

func TestResolve_WhatTheChainDoesNotContradict(t *testing.T) {
	settled := payment.Resolution{State: payment.Settled, Transaction: paymenttest.Hash(1), By: "root", Why: "seen"}
	dead := payment.Resolution{State: payment.Dead, By: "root", Why: "never came"}
	other := settled
	other.Transaction = paymenttest.Hash(2)
	nameless := settled
	nameless.Transaction = ""
	for name, c := range map[string]struct {
		how                              payment.Resolution
		moves, early, final, away, blind bool
		want                             payment.State
	}{
		"paid":                              {how: settled, moves: true, want: payment.Settled},
		"paid by another transaction":       {how: other, moves: true, want: payment.Unknown},
		"settled, but the chain shows none": {how: settled, want: payment.Unknown},
		"settled without a hash":            {how: nameless, moves: true, want: payment.Unknown},
		"settled, the chain cannot be read": {how: settled, away: true, want: payment.Settled},
		"settled, no chain is known":        {how: settled, blind: true, want: payment.Settled},
		"dead, but paid":                    {how: dead, moves: true, want: payment.Unknown},
		"dead, but it may still be spent":   {how: dead, early: true, want: payment.Unknown},
		"dead":                              {how: dead, final: true, want: payment.Dead},
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
				s.clock.advance(2 * time.Minute)
			}
			s.sim.Set(func(b *paymenttest.Simulator) {
				if b.Final = c.final; c.away {
					b.ChainLog = errors.New("node away")
				}
			})
			var chainLog payment.ChainLog = s.sim
			if c.blind {
				chainLog = nil
			}
			_, err = paywall.Resolve(context.Background(), s.ledger, chainLog, s.clock.now(), s.wantState(payment.Unknown), c.how)
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

package payment_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func TestAPrunedAnswerIsMadeAnewForWhoPaid(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	s.mustBuy(p)
	s.clock.advance(2 * time.Hour)
	if err := s.ledger.Prune(context.Background(), s.clock.now()); err != nil {
		t.Fatal(err)
	}
	s.mustBuy(p)
	s.wantTransfers(1)
	if s.works.Load() != 2 {
		t.Errorf("worked %d times, want 2", s.works.Load())
	}
}

// brokenLedger fails where it is told to.
type brokenLedger struct {
	payment.Ledger
	broken string
}

var errDisk = errors.New("disk full")

func (b *brokenLedger) Begin(ctx context.Context, k payment.Key, o string, s payment.Settlement) (*payment.Record, error) {
	if b.broken == "begin" {
		return nil, errDisk
	}
	return b.Ledger.Begin(ctx, k, o, s)
}

func (b *brokenLedger) Claim(ctx context.Context, r payment.Record) (payment.Record, bool, error) {
	if b.broken == "claim" {
		return payment.Record{}, false, errDisk
	}
	return b.Ledger.Claim(ctx, r)
}

func (b *brokenLedger) Finish(ctx context.Context, k payment.Key, o payment.Outcome) (payment.Record, error) {
	if b.broken == "finish" {
		return payment.Record{}, errDisk
	}
	return b.Ledger.Finish(ctx, k, o)
}

func TestWithoutTheLedgerNoMoneyMoves(t *testing.T) {
	for _, step := range []string{"claim", "begin"} {
		s := open(t, nil)
		gate := s.replica(func(o *payment.Options) { o.Ledger = &brokenLedger{s.ledger, step} })
		p := s.pay("1")
		_, err := gate.Buy(context.Background(), s.order(p, "thing"))
		s.wantErr(err, payment.ErrLedger)
		s.wantTransfers(0)
		s.mustBuy(p)
	}
}

func TestABuyerGetsHisAnswerThoughTheOutcomeCannotBeWritten(t *testing.T) {
	s := open(t, nil)
	gate := s.replica(func(o *payment.Options) { o.Ledger = &brokenLedger{s.ledger, "finish"} })
	p := s.pay("1")
	sale, err := gate.Buy(context.Background(), s.order(p, "thing"))
	if err != nil || string(sale.Answer) != "the thing" {
		t.Fatalf("got %q, %v", sale.Answer, err)
	}
	s.clock.advance(24 * time.Hour) // the record is abandoned
	s.mustBuy(p)
	s.wantTransfers(1)
}

package paywall_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

func TestFault_APrunedAnswerIsMadeAnew(t *testing.T) {
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

// An answer that was forgotten before the chain lost its transfer is made anew, too, once the
// transfer is there again (VERIFIER-4.15).
func TestFault_APrunedAnswerIsMadeAnewWhenTheTransferReturns(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	s.mustBuy(p)
	s.sim.Lose("1")
	s.clock.advance(2 * time.Hour)
	if err := s.ledger.Prune(context.Background(), s.clock.now()); err != nil {
		t.Fatal(err)
	}
	s.sim.Set(func(b *paymenttest.Simulator) { b.Final = true })
	s.reconciler(nil).Check(context.Background())
	s.wantState(payment.Unknown)
	s.sim.CarryOut("1")
	s.mustBuy(p)
	s.wantState(payment.Settled)
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

func (b *brokenLedger) Begin(ctx context.Context, k payment.Key, o string, s payment.Settlement) (payment.Answer, *payment.Record, error) {
	if b.broken == "begin" {
		return payment.Answer{}, nil, errDisk
	}
	return b.Ledger.Begin(ctx, k, o, s)
}

func (b *brokenLedger) Claim(ctx context.Context, r payment.Record) (payment.Record, bool, error) {
	if b.broken == "claim" {
		return payment.Record{}, false, errDisk
	}
	return b.Ledger.Claim(ctx, r)
}

func (b *brokenLedger) Apply(ctx context.Context, k payment.Key, e payment.Event) (payment.Outcome, error) {
	if b.broken == "finish" && e.Ends() || b.broken == string(e.Kind) {
		return payment.Outcome{}, errDisk
	}
	return b.Ledger.Apply(ctx, k, e)
}

func (b *brokenLedger) Look(ctx context.Context, k payment.Key, since time.Time) (bool, error) {
	if b.broken == "look" {
		return false, errDisk
	}
	return b.Ledger.Look(ctx, k, since)
}

func TestFault_WithoutTheLedgerNoMoneyMoves(t *testing.T) {
	for _, step := range []string{"claim", "begin"} {
		s := open(t, nil)
		replica := s.replica(func(o *paywall.Options) { o.Ledger = &brokenLedger{s.ledger, step} })
		p := s.pay("1")
		_, err := replica.Buy(context.Background(), s.order(p, "thing"))
		s.wantErr(err, payment.ErrLedger)
		s.wantTransfers(0)
		s.mustBuy(p)
	}
}

func TestFault_AnUnwrittenOutcomeLosesNoAnswer(t *testing.T) {
	s := open(t, nil)
	replica := s.replica(func(o *paywall.Options) { o.Ledger = &brokenLedger{s.ledger, "finish"} })
	p := s.pay("1")
	sale, err := replica.Buy(context.Background(), s.order(p, "thing"))
	if err != nil || sale.Answer.String() != "the thing" {
		t.Fatalf("got %q, %v", sale.Answer, err)
	}
	s.clock.advance(24 * time.Hour) // the record is abandoned
	s.mustBuy(p)
	s.wantTransfers(1)
}

// The entry of an answer that was made anew belongs to its payment, also where that could not be written as settled
// and so has the key of a copy still: an entry of no payment is a fault of the log for ever.
func TestFault_AnUnwrittenOutcomeOfACopyKeepsTheEntryWithItsPayment(t *testing.T) {
	s := open(t, nil)
	ctx := context.Background()
	var err error
	if s.ledger, err = ledger.Open(ctx, sqldbtest.SQLite(t), ledger.Options{Now: s.clock.now, Log: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.ledger.Close() })
	broken := &brokenLedger{Ledger: s.ledger}
	replica := s.replica(func(o *paywall.Options) { o.Ledger = broken })
	s.believing(refused)
	o := s.order(s.forged("1"), "thing")
	o.Work = func(context.Context) ([]byte, error) {
		digest := strings.Repeat("0a", 32)
		value := base64.StdEncoding.EncodeToString(make([]byte, 64))
		return fmt.Appendf(nil, `{"receipt":{},"signature":{"algorithm":"Ed25519","keyId":"sha256:%s",`+
			`"payloadType":"t","value":%q}}`, digest, value), nil
	}
	if _, err := replica.Buy(ctx, o); err == nil {
		t.Fatal("a refused payment was served")
	}
	s.sim.CarryOut("1")
	broken.broken = "finish"
	s.clock.advance(2 * time.Minute)
	if _, err := replica.Buy(ctx, o); err != nil {
		t.Fatal(err)
	}
	var queued, known int
	err = s.ledger.DB().Query(`SELECT count(*), count(payments.id)
		FROM log_queue LEFT JOIN payments ON payments.id = source`).Row(ctx).Scan(&queued, &known)
	if err != nil || queued != 2 || known != 2 {
		t.Errorf("%d entries are queued, %d with their payment, %v", queued, known, err)
	}
	broken.broken = ""
}

// changes of the terms that a new start of the service may bring.
var changes = map[string]func(*payment.Terms){
	"price": func(t *payment.Terms) { t.Amount = "20000" },
	"payee": func(t *payment.Terms) { t.PayTo = paymenttest.Token },
	"token": func(t *payment.Terms) { t.Asset = paymenttest.Seller },
	"chain": func(t *payment.Terms) { t.Network = "eip155:8453" },
}

func TestFault_ABuyerByTheOldTermsGetsTheAnswer(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			settled, open, unspent := s.pay("1"), s.pay("2"), s.pay("3")
			s.mustBuy(settled)
			s.blind(true, openEnds["the connection is cut"])
			_, err := s.buy(open)
			s.wantErr(err, payment.ErrPending)
			s.blind(false, openEnds["the connection is cut"])
			_, err = s.buy(unspent)
			s.wantErr(err, payment.ErrPending)
			s.clear()
			before := len(s.sim.Bodies)

			for _, p := range []payment.Payment{settled, open} {
				o := s.order(p, "thing")
				change(&o.Offer.Terms)
				if sale, err := s.paywall.Buy(context.Background(), o); err != nil || sale.Answer.String() != "the thing" {
					t.Errorf("got %q, %v", sale.Answer, err)
				}
			}
			for p, want := range map[string]error{"3": payment.ErrPending, "4": payment.ErrInvalid} {
				o := s.order(s.pay(p), "thing")
				change(&o.Offer.Terms)
				_, err := s.paywall.Buy(context.Background(), o)
				s.wantErr(err, want)
			}
			s.wantTransfers(2)
			if len(s.sim.Bodies) != before {
				t.Error("a settling by the old terms was requested")
			}
		})
	}
}

func TestFault_ABuyerByVersion1GetsTheAnswerThoughOff(t *testing.T) {
	s := open(t, nil)
	p := s.read(1, payloadV1(paymenttest.Authorization("1", start)))
	s.mustBuy(p)
	o := s.order(p, "thing")
	o.Offer.Terms.V1 = false
	if sale, err := s.paywall.Buy(context.Background(), o); err != nil || sale.Answer.String() != "the thing" {
		t.Errorf("got %q, %v", sale.Answer, err)
	}
}

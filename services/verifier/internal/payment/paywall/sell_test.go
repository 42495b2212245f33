package paywall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

func TestBuy_APaymentBuysOneAnswer(t *testing.T) {
	s := open(t, nil)
	sale := s.mustBuy(s.pay("1"))
	if sale.Transaction != paymenttest.Hash(1) {
		t.Errorf("transaction is %q", sale.Transaction)
	}
	s.wantTransfers(1)
	s.wantReserved(1)
	r := s.wantState(payment.Settled)
	if r.Transaction != paymenttest.Hash(1) || r.Key.Payer != strings.ToLower(paymenttest.Buyer) || r.Amount != "10000" {
		t.Errorf("recorded %+v", r)
	}
}

func TestBuy_TheSamePaymentCostsNoFurtherCalls(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	first := s.mustBuy(p)
	s.clock.advance(24 * time.Hour) // long after its end
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnVerify = func() (x402.VerifyResponse, error) { panic("verify was called") }
		b.ChainLog = errors.New("the chain was queried")
	})
	again := s.mustBuy(p)
	if again.Transaction != first.Transaction || s.works.Load() != 1 {
		t.Errorf("got %+v after %d works", again, s.works.Load())
	}
	s.wantTransfers(1)
}

func TestBuy_APaymentIsBoundToItsRequest(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	s.mustBuy(p)
	_, err := s.paywall.Buy(context.Background(), s.order(p, "other thing"))
	s.wantErr(err, payment.ErrUsed)
	forged := payloadV2(paymenttest.Authorization("1", start))
	forged.Payload.Signature = "0x" + strings.Repeat("cd", 65)
	_, err = s.buy(s.read(2, forged))
	s.wantErr(err, payment.ErrUsed)
	if s.works.Load() != 1 {
		t.Errorf("worked %d times", s.works.Load())
	}
}

func TestBuy_AHundredCopiesAtOnceAreOneSale(t *testing.T) {
	s := open(t, nil)
	gates := []*paywall.Paywall{s.paywall, s.replica(nil), s.replica(nil)}
	a := paymenttest.Authorization("1", start)
	loud := a
	loud.From, loud.Nonce = strings.ToLower(a.From), "0x"+strings.ToUpper(a.Nonce[2:])
	copies := []payment.Payment{s.read(2, payloadV2(a)), s.read(1, payloadV1(a)), s.read(2, payloadV2(loud)), s.read(1, payloadV1(loud))}
	var answers sync.Map
	var sold, used atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			thing := "thing"
			if i%5 == 4 {
				thing = fmt.Sprintf("other thing %d", i)
			}
			sale, err := gates[i%len(gates)].Buy(context.Background(), s.order(copies[i%len(copies)], thing))
			switch {
			case err == nil:
				sold.Add(1)
				answers.Store(sale.Answer.String()+sale.Transaction, true)
			case errors.Is(err, payment.ErrUsed):
				used.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	distinct := 0
	answers.Range(func(any, any) bool { distinct++; return true })
	if distinct != 1 || sold.Load() == 0 || sold.Load()+used.Load() != 100 {
		t.Errorf("%d distinct answers, %d sold, %d refused", distinct, sold.Load(), used.Load())
	}
	if s.works.Load() != 1 {
		t.Errorf("worked %d times", s.works.Load())
	}
	s.wantTransfers(1)
	s.wantReserved(1)
}

// Each call takes a place at the proxy, and those of one payment are one attempt however many they are.
func TestBuy_OfManyCopiesFewWaitToTheEnd(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.Patience = 100 * time.Millisecond })
	began, hang := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	s.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		close(began)
		<-hang
		return honest(), nil
	}
	p := s.pay("1")
	const copies, few = 128, 8
	ended := make(chan error, copies)
	for range copies {
		go func() {
			_, err := s.buy(p)
			ended <- err
		}()
	}
	<-began
	late := time.After(7 * time.Second)
	for i := range copies - few {
		select {
		case err := <-ended:
			s.wantErr(err, payment.ErrInFlight)
		case <-late:
			t.Fatalf("%d of %d copies wait", copies-i, copies)
		}
	}
	release()
	for range few {
		s.wantErr(<-ended, nil)
	}
	s.mustBuy(p)
	s.wantTransfers(1)
}

func TestBuy_WorkThatFailsIsNeverCharged(t *testing.T) {
	s := open(t, nil)
	p := s.pay("1")
	failure := errors.New("not final yet")
	for _, work := range []func(context.Context) ([]byte, error){
		func(context.Context) ([]byte, error) { return nil, failure },
		func(context.Context) ([]byte, error) { panic(failure) },
	} {
		o := s.order(p, "thing")
		o.Work = work
		if _, err := s.paywall.Buy(context.Background(), o); err == nil || !strings.Contains(err.Error(), "not final yet") {
			t.Errorf("got %v", err)
		}
		s.wantTransfers(0)
		s.wantReserved(0)
	}
	s.mustBuy(p) // the same payment is as good as new
	s.wantTransfers(1)
}

func TestBuy_ABadPaymentOutweighsWorkThatFails(t *testing.T) {
	s := open(t, nil)
	no := false
	s.sim.OnVerify = func() (x402.VerifyResponse, error) {
		time.Sleep(20 * time.Millisecond)
		return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInsufficientFunds}, nil
	}
	o := s.order(s.pay("1"), "thing")
	o.Work = func(context.Context) ([]byte, error) { return nil, errors.New("what the work found") }
	_, err := s.paywall.Buy(context.Background(), o)
	s.wantErr(err, payment.ErrRefused)
	var refusal *payment.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != x402.ReasonInsufficientFunds {
		t.Errorf("got %v", err)
	}
}

func TestBuy_WhatTheFacilitatorReturnsForAPayment(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		answer x402.VerifyResponse
		err    error
		want   error
	}{
		"no with a reason is a refusal":         {answer: x402.VerifyResponse{IsValid: &no, InvalidReason: "invalid_exact_evm_signature"}, want: payment.ErrRefused},
		"an error of its own is no refusal":     {answer: x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonUnexpectedVerify}, want: payment.ErrFacilitator},
		"no without a reason is no refusal":     {answer: x402.VerifyResponse{IsValid: &no}, want: payment.ErrFacilitator},
		"no verdict is never yes":               {answer: x402.VerifyResponse{Payer: paymenttest.Buyer}, want: payment.ErrFacilitator},
		"yes for another payer is not believed": {answer: x402.VerifyResponse{IsValid: &yes, Payer: paymenttest.Seller}, want: payment.ErrFacilitator},
		"no answer":                             {err: paymenttest.ErrCut, want: payment.ErrFacilitator},
		"its own limit":                         {err: payment.ErrFacilitatorLimit, want: payment.ErrLimit},
		"a reason that sounds like its limit":   {answer: x402.VerifyResponse{IsValid: &no, InvalidReason: "free_tier_exceeded"}, want: payment.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			s.sim.OnVerify = func() (x402.VerifyResponse, error) { return c.answer, c.err }
			_, err := s.buy(s.pay("1"))
			s.wantErr(err, c.want)
			s.wantTransfers(0)
			s.wantReserved(0)
			if list, _ := s.ledger.List(context.Background(), payment.Filter{}); len(list) != 0 {
				t.Errorf("the claim stayed: %+v", list)
			}
		})
	}
}

func TestBuy_TheFacilitatorGetsOneObjectWithOurTerms(t *testing.T) {
	s := open(t, nil)
	payload := payloadV2(paymenttest.Authorization("1", start))
	payload.Resource = &x402.Resource{URL: "https://evil.example/"}
	payload.Accepted.MaxTimeoutSeconds = 99999
	payload.Accepted.Extra["assetTransferMethod"] = "permit2"
	payload.Extensions = map[string]json.RawMessage{"bazaar": json.RawMessage(`{"info":"theirs"}`), "other": json.RawMessage(`{"x":1}`)}
	s.mustBuy(s.read(2, payload))
	if len(s.sim.SettleBodies()) != 1 {
		t.Fatalf("settle was called with %v", s.sim.SettleBodies())
	}
	for body := range s.sim.SettleBodies() {
		for _, want := range []string{`"paymentRequirements":{"scheme":"exact"`, `"maxTimeoutSeconds":60`, `"other":{"x":1}`, `"bazaar":{"info":"ours"}`, "https://seller.example/v1/thing"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s is not in %s", want, body)
			}
		}
		for _, word := range []string{"evil", "theirs", "99999", "permit2"} {
			if strings.Contains(body, word) {
				t.Errorf("the buyer's %s went on: %s", word, body)
			}
		}
	}
}

func TestBuy_TheFacilitatorsReasonsAreShortAndPrintable(t *testing.T) {
	no := false
	for reason, want := range map[string]string{
		"insufficient_funds":                              "insufficient_funds",
		"refused: \x1b[2J\nbalance too low é":             "refused: ?[2J?balance too low ?",
		strings.Repeat("x", 100_000):                      strings.Repeat("x", 120),
		"invalid_payload" + strings.Repeat("\u00e9", 200): "invalid_payload" + strings.Repeat("?", 105),
	} {
		s := open(t, nil)
		s.sim.OnVerify = func() (x402.VerifyResponse, error) {
			return x402.VerifyResponse{IsValid: &no, InvalidReason: reason}, nil
		}
		_, err := s.buy(s.pay("1"))
		var refused *payment.Refusal
		if !errors.As(err, &refused) || refused.Reason != want {
			t.Errorf("verify: %.200v, want %s", err, want)
		}
		s.sim.Set(func(b *paymenttest.Simulator) { b.OnVerify = nil })
		s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			return x402.SettleResponse{Success: &no, ErrorReason: reason}, nil
		}
		state := payment.Unknown
		if reason == x402.ReasonInsufficientFunds {
			state = payment.Dead
		}
		_, _ = s.buy(s.pay("2"))
		if got := s.wantState(state).Reason; got != want {
			t.Errorf("settle: %.200s, want %s", got, want)
		}
	}
}

func TestBuy_Version1IsSettledAsVersion1(t *testing.T) {
	s := open(t, nil)
	s.mustBuy(s.read(1, payloadV1(paymenttest.Authorization("1", start))))
	for body := range s.sim.SettleBodies() {
		if !strings.HasPrefix(body, `{"x402Version":1,`) || !strings.Contains(body, `"maxAmountRequired":"10000"`) || strings.Contains(body, "eip155") {
			t.Errorf("settled with %s", body)
		}
	}
}

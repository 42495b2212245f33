package httpapi_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/facilitator"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

func TestRefusal_ABadPaymentIs402WithItsReason(t *testing.T) {
	w := open(t, nil)
	for name, c := range map[string]struct {
		header string
		change func(*x402.Payload)
		reason string
	}{
		"no base64":        {header: "{}", reason: x402.ReasonInvalidPayload},
		"the URL alphabet": {header: "_-_-", reason: x402.ReasonInvalidPayload},
		"no JSON":          {header: base64.StdEncoding.EncodeToString([]byte("{")), reason: x402.ReasonInvalidPayload},
		"null":             {header: base64.StdEncoding.EncodeToString([]byte("null")), reason: x402.ReasonInvalidPayload},
		"huge":             {header: strings.Repeat("A", 20<<10), reason: x402.ReasonInvalidPayload},
		"version 1 inside": {change: func(p *x402.Payload) { p.X402Version = 1 }, reason: x402.ReasonInvalidVersion},
		"another network":  {change: func(p *x402.Payload) { p.Accepted.Network = "eip155:8453" }, reason: x402.ReasonInvalidNetwork},
		"too little":       {change: func(p *x402.Payload) { p.Payload.Authorization.Value = "1" }, reason: x402.ReasonValueMismatch},
		"another payee":    {change: func(p *x402.Payload) { p.Payload.Authorization.To = paymenttest.Buyer }, reason: x402.ReasonRecipientMismatch},
		"over":             {change: func(p *x402.Payload) { p.Payload.Authorization.ValidBefore = "1" }, reason: x402.ReasonValidBefore},
	} {
		t.Run(name, func(t *testing.T) {
			header := c.header
			if c.change != nil {
				p := paymenttest.PayloadV2(w.offer(), paymenttest.Authorization("1", w.clock()))
				c.change(&p)
				header = w.encode(p)
			}
			r := w.post(goodBody, x402.HeaderPaymentSignature, header)
			f := r.wantFailure(http.StatusPaymentRequired, "payment_invalid")
			if f.PaymentReason != c.reason || r.challenge().Error != c.reason || r.header.Get(x402.HeaderPaymentResponse) != "" {
				t.Errorf("body is %s, challenge %s", r.body, r.challenge().Error)
			}
			if !strings.Contains(string(r.body), `"x402Version":1`) {
				t.Errorf("no version 1 challenge in %s", r.body)
			}
		})
	}
	if w.sim.Verifies != 0 || len(w.node.Exchanges()) > 2 {
		t.Error("a payment that cannot be good cost something")
	}
}

func TestRefusal_OfTheFacilitatorIs402(t *testing.T) {
	w := open(t, nil)
	no := false
	w.sim.OnVerify = func() (x402.VerifyResponse, error) {
		return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInsufficientFunds}, nil
	}
	r := w.buy("1")
	if f := r.wantFailure(http.StatusPaymentRequired, "payment_refused"); f.PaymentReason != x402.ReasonInsufficientFunds || r.challenge().Error != x402.ReasonInsufficientFunds {
		t.Errorf("body is %s", r.body)
	}
	w.wantTransfers(0)
}

func TestRefusal_SaysThatNothingWasChargedOnlyWhereTheChainDoes(t *testing.T) {
	for name, says := range map[string]bool{"unused": true, "used elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			w := open(t, nil)
			w.sim.Signed = func(x402.ExactPayload) bool { return false }
			if name == "used elsewhere" {
				w.sim.Cancel("1")
			}
			f := w.buy("1").wantFailure(http.StatusPaymentRequired, "payment_refused")
			if strings.Contains(f.Error, "nothing was charged") != says {
				t.Errorf("told %s", f.Error)
			}
		})
	}
}

func TestRefusal_AFacilitatorAwayIs503AndNotCharged(t *testing.T) {
	w := open(t, nil)
	w.sim.OnVerify = func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, paymenttest.ErrCut }
	r := w.buy("1")
	r.wantFailure(http.StatusServiceUnavailable, "facilitator_unavailable")
	if r.header.Get("Retry-After") == "" || r.header.Get(x402.HeaderPaymentRequired) != "" {
		t.Errorf("headers are %v", r.header)
	}
	w.sim.Set(func(b *paymenttest.Simulator) { b.OnVerify = nil })
	w.buy("1").wantReceipt(w) // the same payment is as good as new
}

func TestRefusal_OfASettlingIs402WithPaymentResponse(t *testing.T) {
	w := open(t, nil)
	no := false
	w.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return x402.SettleResponse{Success: &no, ErrorReason: x402.ReasonInsufficientFunds, Network: network, Payer: paymenttest.Buyer}, nil
	}
	r := w.buy("1")
	f := r.wantFailure(http.StatusPaymentRequired, "settlement_refused")
	s := r.settlement(x402.HeaderPaymentResponse)
	if f.PaymentReason != x402.ReasonInsufficientFunds || *s.Success || s.ErrorReason != x402.ReasonInsufficientFunds || s.Payer != paymenttest.Buyer || s.Network != network {
		t.Errorf("body is %s, PAYMENT-RESPONSE %+v", r.body, s)
	}
	if len(r.challenge().Accepts) != 1 {
		t.Error("there is no fresh challenge")
	}
	name, value := w.v1("2")
	if s := w.post(goodBody, name, value).settlement(x402.HeaderPaymentResponseV1); *s.Success || s.Network != "base-sepolia" {
		t.Errorf("version 1: %+v", s)
	}
}

func TestRefusal_AnOpenSettlementIs503NoFreshChallenge(t *testing.T) {
	w := open(t, nil)
	no := false
	w.sim.ChainLog = errors.New("node away")
	w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		moved := honest()
		return x402.SettleResponse{Success: &no, ErrorReason: x402.ReasonSettlementPending, Transaction: moved.Transaction, Network: network}, nil
	}
	name, value := w.v2("1")
	for range 2 {
		r := w.post(goodBody, name, value)
		f := r.wantFailure(http.StatusServiceUnavailable, "settlement_pending")
		s := r.settlement(x402.HeaderPaymentResponse)
		if *s.Success || s.ErrorReason != x402.ReasonSettlementPending || s.Transaction != paymenttest.Hash(1) || s.Payer != paymenttest.Buyer {
			t.Errorf("PAYMENT-RESPONSE is %+v", s)
		}
		if !*f.Retryable || r.header.Get("Retry-After") == "" || r.header.Get(x402.HeaderPaymentRequired) != "" || strings.Contains(string(r.body), "accepts") {
			t.Errorf("a buyer may pay again after %s %v", r.body, r.header)
		}
	}
	w.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog = nil })
	r := w.post(goodBody, name, value)
	r.wantReceipt(w)
	if s := r.settlement(x402.HeaderPaymentResponse); !*s.Success || s.Transaction != paymenttest.Hash(1) {
		t.Errorf("PAYMENT-RESPONSE is %+v", s)
	}
	w.wantTransfers(1)
}

func TestRefusal_TheFacilitatorsLimitIs503ForAll(t *testing.T) {
	w := open(t, nil)
	w.sim.OnVerify = func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, payment.ErrFacilitatorLimit }
	w.buy("1").wantFailure(http.StatusServiceUnavailable, "facilitator_limit")
	w.post("").wantFailure(http.StatusServiceUnavailable, "facilitator_limit")
	w.wantTransfers(0)
}

func TestRefusal_TheFacilitatorsPauseIsTheRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		path       string
		status     int
		retryAfter string
		reason     string
		wait       int
		// closed is how others are answered meanwhile, by a price or by the pause.
		closed bool
	}{
		"a limit":                        {"/verify", 402, "", "facilitator_limit", 60, true},
		"a limit for two minutes":        {"/verify", 402, "120", "facilitator_limit", 120, true},
		"a limit for a month":            {"/verify", 402, "2592000", "facilitator_limit", 3600, true},
		"a limit when it settles":        {"/settle", 402, "120", "settlement_pending", 5, true},
		"busy":                           {"/verify", 429, "", "facilitator_unavailable", 1, false},
		"busy for three seconds":         {"/verify", 429, "3", "facilitator_unavailable", 3, false},
		"busy for a month":               {"/verify", 429, "2592000", "facilitator_unavailable", 10, false},
		"busy when it settles":           {"/settle", 429, "", "settlement_pending", 5, false},
		"away":                           {"/verify", 503, "7", "facilitator_unavailable", 5, false},
		"no verdict, in words of limits": {"/verify", 400, "7", "facilitator_unavailable", 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path != c.path {
					w.sim.Facilitator().ServeHTTP(rw, r)
					return
				}
				rw.Header().Set("Retry-After", c.retryAfter)
				rw.WriteHeader(c.status)
				_, _ = io.WriteString(rw, `{"error":"free_tier quota billing rate_limit_exceeded"}`)
			}))
			t.Cleanup(server.Close)
			w = open(t, func(o *paywall.Options) {
				client, err := facilitator.New(facilitator.Options{URL: server.URL, Now: o.Now})
				if err != nil {
					t.Fatal(err)
				}
				o.Facilitator = client
			})
			check := func(r reply, reason string, wait int) {
				t.Helper()
				f := r.wantFailure(http.StatusServiceUnavailable, reason)
				if !*f.Retryable || f.RetryAfterSeconds != wait || r.header.Get("Retry-After") != fmt.Sprint(wait) {
					t.Errorf("body is %s, Retry-After %q, want %d", r.body, r.header.Get("Retry-After"), wait)
				}
			}
			check(w.buy("1"), c.reason, c.wait)
			if c.closed {
				pause := 60
				if c.retryAfter != "" {
					pause = max(c.wait, 120)
				}
				w.advance(20 * time.Second)
				check(w.post(""), "facilitator_limit", pause-20)
			} else {
				w.post("").wantFailure(http.StatusPaymentRequired, "payment_required")
			}
			w.wantTransfers(0)
		})
	}
}

func TestSale_APaymentIdentifierBuysOnce(t *testing.T) {
	w := open(t, nil)
	pay := func(nonce, body string) reply {
		p := paymenttest.PayloadV2(w.offer(), paymenttest.Authorization(nonce, w.clock()))
		return w.post(body, x402.HeaderPaymentSignature, w.encode(paymenttest.WithIdentifier(p, "order_0123456789")))
	}
	first := pay("1", goodBody)
	first.wantReceipt(w)
	again := pay("2", goodBody) // signed anew, as clients that retry do
	again.wantReceipt(w)
	if one, two := first.settlement(x402.HeaderPaymentResponse), again.settlement(x402.HeaderPaymentResponse); one.Transaction != two.Transaction {
		t.Errorf("settled %+v and %+v", one, two)
	}
	pay("3", `{"transactionHash":"`+recordedTx+`"}`).wantFailure(http.StatusBadRequest, "payment_identifier_conflict")
	w.wantTransfers(1)
}

func TestRefusal_TwoPaymentsOfOneVersionAre402(t *testing.T) {
	w := open(t, nil)
	name, one := w.v2("1")
	_, two := w.v2("2")
	f := w.post(goodBody, name, one, name, two).wantFailure(http.StatusPaymentRequired, "payment_invalid")
	if f.PaymentReason != x402.ReasonInvalidPayload {
		t.Errorf("the reason is %s", f.PaymentReason)
	}
	w.wantTransfers(0)
}

func TestRefusal_AFaultOfOursIsNoCallToPayAnew(t *testing.T) {
	w := open(t, func(o *paywall.Options) {
		o.At = func(p paywall.Point) {
			if p == paywall.Asked {
				panic("the money has moved")
			}
		}
	})
	r := w.buy("1")
	f := r.wantFailure(http.StatusServiceUnavailable, "internal_error")
	if strings.Contains(f.Error, "nothing was charged") || !strings.Contains(f.Error, "same payment again") || !*f.Retryable {
		t.Errorf("told %s", r.body)
	}
	if r.header.Get(x402.HeaderPaymentRequired) != "" {
		t.Error("a fresh challenge was sent")
	}
	w.wantTransfers(1)
}

func TestRefusal_TooManyUnpaidAttemptsAre503(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 3 })
	mismatch := `{"transactionHash":"` + recordedTx + `","expectations":{"status":"reverted"}}`
	for i := range 3 {
		name, value := w.v2(fmt.Sprint(i + 1))
		w.post(mismatch, name, value).wantFailure(http.StatusUnprocessableEntity, "expectation_mismatch")
	}
	name, value := w.v2("4")
	r := w.post(mismatch, name, value, "X-Forwarded-For", "1.2.3.4") // only a trusted proxy's counts
	if f := r.wantFailure(http.StatusServiceUnavailable, "too_many_unpaid_attempts"); f.RetryAfterSeconds < 1 || f.RetryAfterSeconds > 60 {
		t.Errorf("body is %s", r.body)
	}
	w.post("").wantFailure(http.StatusPaymentRequired, "payment_required") // asking for the price is free
	w.advance(time.Minute)
	w.buy("5").wantReceipt(w)
}

// The fourth payment of a payer whose transfers revert is refused for the rest of the day
// (UTC), before it costs anything. Others are served, also at the same address.
func TestRefusal_TooManyFailedSettlementsAre429(t *testing.T) {
	w := open(t, nil)
	payer := paymenttest.Payer(1)
	w.sim.OnSettleOf = func(p x402.ExactPayload, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		if p.Authorization.From != paymenttest.Address(payer) {
			return honest(), nil
		}
		no := false
		return x402.SettleResponse{
			Success: &no, ErrorReason: "invalid_exact_evm_transaction_failed", Network: network, Payer: p.Authorization.From,
			Transaction: w.sim.Revert(p.Authorization.Nonce[2:]),
		}, nil
	}
	pay := func(nonce string) reply {
		t.Helper()
		a := paymenttest.Authorization(nonce, w.clock())
		a.From = paymenttest.Address(payer)
		p := paymenttest.PayloadV2(w.offer(), a)
		p.Payload.Signature = paymenttest.SignWith(payer, w.offer().Terms, a)
		return w.post(goodBody, x402.HeaderPaymentSignature, w.encode(p))
	}
	wantReserved := func(want int) {
		t.Helper()
		status, err := w.ledger.QuotaStatus(context.Background(), payment.Month(w.clock()))
		if err != nil || status.Reserved != want {
			t.Errorf("%d settlements are reserved (%v), want %d", status.Reserved, err, want)
		}
	}
	for i := range 3 {
		pay(fmt.Sprint(i+1)).wantFailure(http.StatusPaymentRequired, "settlement_refused")
	}
	wantReserved(3) // a transaction was made for each
	verifies, settles := w.sim.Verifies, len(w.sim.Bodies)
	wait := int(payment.Day(start).Add(24 * time.Hour).Sub(start).Seconds())
	r := pay("4")
	f := r.wantFailure(http.StatusTooManyRequests, "too_many_failed_settlements")
	if !*f.Retryable || f.RetryAfterSeconds != wait || r.header.Get("Retry-After") != fmt.Sprint(wait) {
		t.Errorf("body is %s, Retry-After %q, want %d", r.body, r.header.Get("Retry-After"), wait)
	}
	if r.header.Get(x402.HeaderPaymentRequired) != "" || r.header.Get(x402.HeaderPaymentResponse) != "" {
		t.Errorf("payment headers on a 429: %v", r.header)
	}
	if w.sim.Verifies != verifies || len(w.sim.Bodies) != settles {
		t.Error("the facilitator was called for the fourth payment")
	}
	wantReserved(3)
	w.buy("5").wantReceipt(w)
	wantReserved(4)
	w.wantTransfers(1)
	w.sim.Set(func(b *paymenttest.Simulator) { b.OnSettleOf = nil })
	w.advance(time.Duration(wait) * time.Second)
	pay("6").wantReceipt(w)
}

func TestRefusal_InjectedHeadersChangeNothing(t *testing.T) {
	w := open(t, nil)
	yes := true
	forged := w.encode(x402.SettleResponse{Success: &yes, Transaction: paymenttest.Hash(9), Network: network, Payer: paymenttest.Buyer})
	r := w.post(goodBody, x402.HeaderPaymentResponse, forged, "Settlement-Overrides", `{"amount":"0"}`, x402.HeaderPaymentRequired, "x")
	r.wantFailure(http.StatusPaymentRequired, "payment_required")
	if r.header.Get("Settlement-Overrides") != "" || r.header.Get(x402.HeaderPaymentResponse) != "" {
		t.Errorf("headers are %v", r.header)
	}
}

func TestLog_HoldsNoPayment(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	w.post(goodBody, name, value).wantReceipt(w)
	w.post("{", name, value)
	w.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		return x402.SettleResponse{}, paymenttest.ErrCut
	}
	name2, value2 := w.v2("2")
	w.post(goodBody, name2, value2)
	log := w.logged.String()
	if !strings.Contains(log, "msg=request") {
		t.Fatalf("the log is %q", log)
	}
	signature := paymenttest.Sign(w.offer().Terms, paymenttest.Authorization("1", w.clock()))
	for _, secret := range []string{value, value2, signature[2:], "PAYMENT-SIGNATURE"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %.40s…", secret)
		}
	}
}

package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

func TestSale_APaidCallGetsTheSignedReceipt(t *testing.T) {
	w := open(t, nil)
	r := w.buy("1")
	r.wantReceipt(w)
	s := r.settlement(x402.HeaderPaymentResponse)
	if !*s.Success || s.Transaction != paymenttest.Hash(1) || s.Network != network || s.Payer != paymenttest.Buyer {
		t.Errorf("PAYMENT-RESPONSE is %+v", s)
	}
	for _, name := range []string{x402.HeaderPaymentRequired, x402.HeaderPaymentResponseV1} {
		if r.header.Get(name) != "" {
			t.Errorf("%s is set", name)
		}
	}
	if r.header.Get("Content-Length") != strconv.Itoa(len(r.body)) {
		t.Errorf("%d bytes came with %v", len(r.body), r.header)
	}
	w.wantTransfers(1)
}

func TestSale_AVersion1CallIsAnsweredInKind(t *testing.T) {
	w := open(t, nil)
	name, value := w.v1("1")
	r := w.post(goodBody, name, value)
	r.wantReceipt(w)
	s := r.settlement(x402.HeaderPaymentResponseV1)
	if !*s.Success || s.Network != "base-sepolia" || s.Payer != paymenttest.Buyer || r.header.Get(x402.HeaderPaymentResponse) != "" {
		t.Errorf("X-PAYMENT-RESPONSE is %+v", s)
	}
}

func TestSale_Version2WinsAndOnePaymentIsSettled(t *testing.T) {
	w := open(t, nil)
	name1, value1 := w.v1("1")
	name2, value2 := w.v2("2")
	r := w.post(goodBody, name1, value1, name2, value2)
	r.wantReceipt(w)
	if r.header.Get(x402.HeaderPaymentResponse) == "" || r.header.Get(x402.HeaderPaymentResponseV1) != "" {
		t.Errorf("answered %v", r.header)
	}
	w.wantTransfers(1)
}

func TestSale_TheSameRequestReturnsTheSameBytesForEver(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	first := w.post(goodBody, name, value)
	spelled := `{ "expectations" : {"status":"success"}, "transactionHash":"0x` + strings.ToUpper(recordedTx[2:]) + `" }`
	w.advance(24 * time.Hour)
	w.node.SetHeads(9_000_000, 8_999_999)
	again := w.do(http.MethodPost, alias, spelled, name, value) // the alias is the same operation
	fresh := w.buy("2")
	for _, r := range []reply{again, fresh} {
		r.wantReceipt(w)
		if string(r.body) != string(first.body) {
			t.Errorf("got %s, want %s", r.body, first.body)
		}
	}
	w.wantTransfers(2)
}

func TestSale_AQuestionAgainNamesTheFirstTransaction(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.ReuseWindow = 24 * time.Hour })
	settled := func(r reply, name string) (s x402.SettleResponse) {
		t.Helper()
		r.wantReceipt(w)
		if err := x402.Decode(r.header.Get(name), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	name, value := w.v2("1")
	first := settled(w.post(goodBody, name, value), x402.HeaderPaymentResponse)
	name1, value1 := w.v1("2")
	again := settled(w.post(goodBody, name1, value1), x402.HeaderPaymentResponseV1)
	if !*again.Success || again.Transaction != first.Transaction || string(again.Extra) != `{"repeated":true}` {
		t.Errorf("got %+v, first %+v", again, first)
	}
	if same := settled(w.post(goodBody, name, value), x402.HeaderPaymentResponse); same.Extra != nil || first.Extra != nil {
		t.Errorf("the payment that was spent is marked as repeated: %+v", same)
	}
	w.wantTransfers(1)
}

func TestSale_APaymentForAnotherRequestIs402(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	w.post(goodBody, name, value).wantReceipt(w)
	r := w.post(`{"transactionHash":"`+recordedTx+`"}`, name, value)
	r.wantFailure(http.StatusPaymentRequired, "payment_already_used")
	if c := r.challenge(); c.Error != "payment_already_used" || len(c.Accepts) != 1 {
		t.Errorf("challenge is %+v", c)
	}
	w.wantTransfers(1)
}

func TestSale_TheEnvelopeIsForClientsThatAcceptIt(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	plain := w.post(goodBody, name, value)
	for accept, want := range map[string]string{
		"":                          receipt.MediaTypeJSON,
		"*/*":                       receipt.MediaTypeJSON,
		"application/json":          receipt.MediaTypeJSON,
		"application/vnd.dsse+json": receipt.MediaTypeDSSE,
		"application/json, application/vnd.dsse+json":             receipt.MediaTypeDSSE,
		"text/html, Application/VND.DSSE+json;q=0.5":              receipt.MediaTypeDSSE,
		"application/vnd.dsse+json;q=0.5, application/json;q=0.9": receipt.MediaTypeJSON,
		"application/vnd.dsse+json;q=0":                           receipt.MediaTypeJSON,
		"application/vnd.dsse+json;q=banana":                      receipt.MediaTypeJSON,
	} {
		r := w.post(goodBody, name, value, "Accept", accept)
		r.wantReceipt(w) // either way it verifies
		if got := r.header.Get("Content-Type"); got != want || r.header.Get("Vary") != "Accept" {
			t.Errorf("%q: got %s, Vary %q", accept, got, r.header.Get("Vary"))
		}
		if want == receipt.MediaTypeJSON && string(r.body) != string(plain.body) {
			t.Errorf("%q: got %s", accept, r.body)
		}
	}
	w.wantTransfers(1)
}

// VERIFIER-7.1: 422, which is never charged.

func TestSale_WithoutEvidenceIs422AndNotCharged(t *testing.T) {
	unknown := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		body      string
		node      func(*world)
		reason    string
		retryable bool
		wait      int
	}{
		"unknown":       {body: `{"transactionHash":"0x` + unknown + `"}`, reason: "transaction_not_found", retryable: true},
		"not final yet": {node: func(w *world) { w.node.SetHeads(2_000_001, 1_999_990) }, reason: "not_finalized", retryable: true, wait: 1},
		"too few confirmations": {
			body: `{"transactionHash":"` + recordedTx + `","expectations":{"minConfirmations":50}}`,
			node: func(w *world) { w.node.SetHeads(2_000_010, 2_000_005) }, reason: "insufficient_confirmations", retryable: true, wait: 1,
		},
		"not as expected": {body: `{"transactionHash":"` + recordedTx + `","expectations":{"status":"reverted","selector":"0x18cbafe5"}}`, reason: "expectation_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			w := openAt(t, c.node)
			body := c.body
			if body == "" {
				body = goodBody
			}
			payment, value := w.v2("1")
			r := w.post(body, payment, value)
			f := r.wantFailure(http.StatusUnprocessableEntity, c.reason)
			if *f.Retryable != c.retryable || (f.RetryAfterSeconds > 0) != (c.wait > 0) || (r.header.Get("Retry-After") != "") != (c.wait > 0) {
				t.Errorf("body is %s, Retry-After %q", r.body, r.header.Get("Retry-After"))
			}
			if r.header.Get(x402.HeaderPaymentRequired) != "" || r.header.Get(x402.HeaderPaymentResponse) != "" {
				t.Errorf("payment headers on a 422: %v", r.header)
			}
			w.wantTransfers(0)
		})
	}
}

// openAt opens a world whose node is changed before anything is read.
func openAt(t *testing.T, change func(*world)) *world {
	t.Helper()
	w := open(t, nil)
	if change != nil {
		change(w)
		w.reopen()
	}
	return w
}

func TestSale_WhatIsSoldAboutOneChainIsNoAnswerAboutAnother(t *testing.T) {
	w := openRecorded(t)
	w.buy("1").wantReceipt(w)
	name, value := w.v2("2")
	w.do(http.MethodPost, "/v1/verify/ethereum-18000000-transaction", goodBody, name, value).
		wantFailure(http.StatusUnprocessableEntity, "transaction_not_found")
	w.wantTransfers(1)
}

func TestSale_AMismatchListsAllChecks(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	f := w.post(`{"transactionHash":"`+recordedTx+`","expectations":{"status":"reverted","selector":"0x18CBAFE5","minConfirmations":1}}`, name, value).
		wantFailure(http.StatusUnprocessableEntity, "expectation_mismatch")
	text, err := json.Marshal(f.Checks)
	w.must(err)
	want := `[{"name":"status","result":"fail","expected":"reverted","found":"success"},` +
		`{"name":"selector","result":"pass","expected":"0x18cbafe5","found":"0x18cbafe5"},` +
		`{"name":"minConfirmations","result":"pass","expected":1,"found":1}]`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

func TestSale_ANodeThatIsAwayIs422Retryable(t *testing.T) {
	w := open(t, nil)
	w.node.Play(scriptOf(func(rw http.ResponseWriter, _ *http.Request, _ []recorded.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	}))
	r := w.buy("1")
	f := r.wantFailure(http.StatusUnprocessableEntity, "upstream_unavailable")
	if !*f.Retryable {
		t.Errorf("body is %s", r.body)
	}
	w.wantTransfers(0)
}

func TestSale_AHundredCopiesAtOnceAreOne(t *testing.T) {
	w := openAt(t, func(w *world) { w.node.SetHeads(2_000_200, 2_000_150) }) // every body holds, whichever wins
	a := paymenttest.Authorization("ab", w.clock())
	loud := a
	loud.Nonce, loud.From = "0x"+strings.ToUpper(a.Nonce[2:]), strings.ToLower(a.From)
	headers := [][2]string{
		{x402.HeaderPaymentSignature, w.encode(paymenttest.PayloadV2(w.offer(), a))},
		{x402.HeaderPaymentV1, w.encode(paymenttest.PayloadV1(w.offer(), a))},
		{x402.HeaderPaymentSignature, w.encode(paymenttest.PayloadV2(w.offer(), loud))},
	}
	var answers sync.Map
	var paid, used atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		body, path := goodBody, []string{base, alias}[i%2]
		if i%10 == 9 {
			body = fmt.Sprintf(`{"transactionHash":"%s","expectations":{"minConfirmations":%d}}`, recordedTx, i)
		}
		all.Go(func() {
			h := headers[i%len(headers)]
			switch r := w.do(http.MethodPost, path, body, h[0], h[1]); {
			case r.status == http.StatusOK:
				paid.Add(1)
				answers.Store(string(r.body), true)
			case r.status == http.StatusPaymentRequired && strings.Contains(string(r.body), "payment_already_used"):
				used.Add(1)
			default:
				t.Errorf("got %d: %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	distinct := 0
	answers.Range(func(any, any) bool { distinct++; return true })
	if distinct != 1 || paid.Load() == 0 {
		t.Errorf("%d distinct answers, %d paid, %d used", distinct, paid.Load(), used.Load())
	}
	w.wantTransfers(1)
	if n := w.node.Calls("eth_getBlockReceipts"); n > 1 {
		t.Errorf("the block was read %d times", n)
	}
}

func TestSale_ACopyWaitsForABoundedTime(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.Answer = 300 * time.Millisecond })
	release := make(chan struct{})
	w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		<-release
		return honest(), nil
	}
	name, value := w.v2("1")
	for range 2 { // the call that pays, and its copy
		began := time.Now()
		r := w.post(goodBody, name, value)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it waited for %v", took)
		}
		f := r.wantFailure(http.StatusServiceUnavailable, "payment_in_progress")
		if !*f.Retryable || r.header.Get("Retry-After") == "" || r.header.Get(x402.HeaderPaymentRequired) != "" {
			t.Errorf("body is %s, headers %v", r.body, r.header)
		}
	}
	close(release)
	r := w.post(goodBody, name, value)
	for deadline := time.Now().Add(30 * time.Second); r.status != http.StatusOK && time.Now().Before(deadline); {
		r = w.post(goodBody, name, value)
	}
	r.wantReceipt(w)
	w.wantTransfers(1)
}

func TestSale_AReturningBuyerIsServedAtTheLimit(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.FreeSettlements = 2 })
	name, value := w.v2("1")
	w.post(goodBody, name, value).wantReceipt(w)
	w.buy("2").wantReceipt(w)
	wait := int(payment.NextMonth(start).Sub(start).Seconds())
	for _, r := range []reply{w.post(""), w.post(goodBody), w.buy("3"), w.post(goodBody, name, "garbage")} {
		f := r.wantFailure(http.StatusServiceUnavailable, "facilitator_limit")
		if !*f.Retryable || f.RetryAfterSeconds != wait || r.header.Get("Retry-After") != fmt.Sprint(wait) || r.header.Get(x402.HeaderPaymentRequired) != "" {
			t.Errorf("body is %s, headers %v", r.body, r.header)
		}
	}
	w.post("{", name, value).wantFailure(http.StatusBadRequest, "invalid_request") // a malformed body comes first
	w.post(goodBody, name, value).wantReceipt(w)
	w.wantTransfers(2)
	w.advance(time.Duration(wait) * time.Second)
	w.post("").wantFailure(http.StatusPaymentRequired, "payment_required")
	if _, left, _ := w.paywall.Quota(context.Background()); left != 2 {
		t.Errorf("%d are left in the new month", left)
	}
}

// Ten valid copies among ninety with broken signatures, all at once.
func TestSale_BrokenCopiesDoNotKeepTheValidOnesOut(t *testing.T) {
	w := open(t, nil)
	w.sim.Signed = func(p x402.ExactPayload) bool {
		return p.Signature == paymenttest.Sign(paymenttest.Terms(network), p.Authorization)
	}
	for round := range 5 {
		name, good := w.v2(fmt.Sprint(round + 1))
		forged := paymenttest.PayloadV2(w.offer(), paymenttest.Authorization(fmt.Sprint(round+1), w.clock()))
		forged.Payload.Signature = paymenttest.Forged
		bad := w.encode(forged)
		replies := make([]reply, 100)
		var all sync.WaitGroup
		for i := range replies {
			value := bad
			if i%10 == round {
				value = good
			}
			all.Go(func() { replies[i] = w.post(goodBody, name, value) })
		}
		all.Wait()
		for i, r := range replies {
			if i%10 == round {
				r.wantReceipt(w)
				if string(r.body) != string(replies[round].body) || r.header.Get(x402.HeaderPaymentResponse) != replies[round].header.Get(x402.HeaderPaymentResponse) {
					t.Errorf("copy %d got another answer", i)
				}
			} else if r.status != http.StatusPaymentRequired || r.header.Get(x402.HeaderPaymentRequired) == "" {
				t.Errorf("broken copy %d got %d: %s", i, r.status, r.body)
			}
		}
		w.wantTransfers(round + 1)
	}
}

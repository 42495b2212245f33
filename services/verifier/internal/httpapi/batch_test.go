package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

const batchPath = "/v1/verify/batch"

// goodTransfer is a transfer of Base's block 2,000,000.
const goodTransfer = `{"transactionHash":"0x2e1d81473d582450c1e75709902396aa65ac4fbdd2b04f2bc08d24b32a569c1c",` +
	`"transfer":{"token":"0x4200000000000000000000000000000000000006","to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03","amount":"29102531643592471"}}`

// batchOf returns the body of a batch.
func batchOf(questions ...string) string {
	return `{"questions":[` + strings.Join(questions, ",") + `]}`
}

// many returns so many different questions about the recorded transaction, all of which hold.
func many(n int) (questions []string) {
	holds := []string{
		`"status":"success"`, `"selector":"0x18cbafe5"`, `"minConfirmations":1`,
		`"from":"0xf9868b3960348194371b8ca4fe87ca7de95e40b6"`, `"to":"0xc7b006f084ca79334db41fe216d3195870fac026"`,
	}
	for i := range n {
		var expected []string
		for bit, one := range holds {
			if i>>bit&1 == 1 {
				expected = append(expected, one)
			}
		}
		questions = append(questions, `{"transactionHash":"`+recordedTx+`","expectations":{`+strings.Join(expected, ",")+`}}`)
	}
	return questions
}

// batchOffer is what a batch of n questions costs.
func batchOffer(n int) payment.Offer {
	terms := paymenttest.Terms(network)
	terms.Amount = fmt.Sprint(10_000 * n)
	return payment.Offer{Terms: terms, Resource: x402.Resource{URL: publicURL + batchPath}}
}

// payFor returns an authorization over the price of n questions.
func (w *world) payFor(n int, nonce string) x402.Authorization {
	a := paymenttest.Authorization(nonce, w.clock())
	a.Value = batchOffer(n).Terms.Amount
	return a
}

// buyBatch buys with a payment of version 2 for n questions.
func (w *world) buyBatch(nonce string, n int, body string) reply {
	w.Helper()
	return w.do(http.MethodPost, batchPath, body, x402.HeaderPaymentSignature,
		w.encode(paymenttest.PayloadV2(batchOffer(n), w.payFor(n, nonce))))
}

// wantAnswers checks a paid answer, and returns the single ones.
func (r reply) wantAnswers(n int) [][]byte {
	r.Helper()
	if r.status != http.StatusOK {
		r.Fatalf("status is %d: %.500s", r.status, r.body)
	}
	answers, err := receipt.SplitAnswers(r.body)
	if err != nil || len(answers) != n {
		r.Fatalf("%d answers, want %d, %v: %s", len(answers), n, err, r.body)
	}
	return answers
}

func TestBatch_EachAnswerIsTheOneOfItsOwnPath(t *testing.T) {
	w := openRecorded(t)
	elsewhere := `"transactionHash":"0x513a4abc759c2d30fd7f5a7e5239e72fccc1b24491b1ed99fa9f24b96e36fc88"`
	r := w.buyBatch("1", 4, batchOf(goodTransfer, goodBody, `{`+elsewhere+`,"chain":"ethereum-18000000"}`, many(1)[0]))
	answers := r.wantAnswers(4)
	w.wantTransfers(1)
	if s := r.settlement(x402.HeaderPaymentResponse); !*s.Success || s.Transaction != paymenttest.Hash(1) || r.header.Get("Cache-Control") != "private, no-store" {
		t.Errorf("%+v %v", s, r.header)
	}
	for i, single := range []struct{ path, body string }{
		{transfers, goodTransfer}, {base, goodBody}, {"/v1/verify/ethereum-18000000-transaction", `{` + elsewhere + `}`}, {base, many(1)[0]},
	} {
		name, value := w.v2(fmt.Sprintf("a%d", i))
		if alone := w.do(http.MethodPost, single.path, single.body, name, value); string(alone.body) != string(answers[i]) {
			t.Errorf("question %d: alone it is\n%s, in the batch\n%s", i, alone.body, answers[i])
		}
	}
	reply{TB: t, status: 200, header: r.header, body: answers[1]}.wantReceipt(w)
}

func TestBatch_PriceFollowsTheNumber(t *testing.T) {
	w := open(t, nil)
	for body, n := range map[string]int{
		"": 1, "{}": 1, batchOf(goodBody): 1, batchOf(goodBody, goodTransfer): 2, batchOf(many(25)...): 25,
	} {
		r := w.do(http.MethodPost, batchPath, body)
		r.wantFailure(http.StatusPaymentRequired, "payment_required")
		want := fmt.Sprint(10_000 * n)
		var v1 x402.PaymentRequiredV1
		w.must(json.Unmarshal(r.body, &v1))
		c := r.challenge()
		if c.Accepts[0].Amount != want || v1.Accepts[0].MaxAmountRequired != want || c.Resource.URL != publicURL+batchPath {
			t.Errorf("%d questions: the challenge is over %s and %s, want %s", n, c.Accepts[0].Amount, v1.Accepts[0].MaxAmountRequired, want)
		}
		if size := len(r.header.Get(x402.HeaderPaymentRequired)); size > 4096 {
			t.Errorf("the challenge has %d bytes", size)
		}
	}
}

func TestBatch_AMalformedOneIs400AndNeverCharged(t *testing.T) {
	w := open(t, nil)
	upper := strings.Replace(goodBody, recordedTx, "0x"+strings.ToUpper(recordedTx[2:]), 1)
	for body, field := range map[string]string{
		batchOf():                                          "questions",
		batchOf(many(26)...):                               "questions",
		`{"questions":{}}`:                                 "questions",
		`{"questions":null}`:                               "questions",
		`{"question":[]}`:                                  "question",
		`[` + goodBody + `]`:                               "",
		batchOf(goodBody, `[]`):                            "questions.1",
		batchOf(goodBody, `null`):                          "questions.1",
		batchOf(goodBody, `7`):                             "questions.1",
		batchOf(goodBody, `{}`):                            "questions.1.transactionHash",
		batchOf(goodBody, upper):                           "questions.1",
		batchOf(goodTransfer, goodBody, goodTransfer):      "questions.2",
		batchOf(`{"chain":"base",` + goodBody[1:]):         "",
		batchOf(goodBody, `{"chain":"base",`+goodBody[1:]): "questions.1",
		batchOf(`{"chain":"mars",` + goodBody[1:]):         "questions.0.chain",
		batchOf(`{"chain":7,` + goodBody[1:]):              "questions.0.chain",
		batchOf(`{"chain":null,` + goodBody[1:]):           "questions.0.chain",
		batchOf(`{"transfer":{},` + goodBody[1:]):          "questions.0.expectations.status",
		batchOf(`{"transfer":null,` + goodBody[1:]):        "questions.0.transfer",
		batchOf(`{"Transfer":{},` + goodBody[1:]):          "questions.0.Transfer",
		batchOf(`{"payment":{"response":{},"sent":{}}}`):   "questions.0.payment",
		batchOf(goodBody) + "x":                            "",
		batchOf(goodBody[:40]):                             "",
		batchOf(goodBody + strings.Repeat(" ", 33<<10)):    "",
	} {
		if body == batchOf(`{"chain":"base",`+goodBody[1:]) { // it names the first chain
			w.do(http.MethodPost, batchPath, body).wantFailure(http.StatusPaymentRequired, "payment_required")
			continue
		}
		for _, r := range []reply{w.do(http.MethodPost, batchPath, body), w.buyBatch("1", 1, body), w.buyBatch("1", 2, body)} {
			if f := r.wantFailure(http.StatusBadRequest, "invalid_request"); f.Field != field {
				t.Errorf("%.80s: the field is %q, want %q: %s", body, f.Field, field, f.Error)
			}
		}
	}
	w.buyBatch("1", 1, "").wantFailure(http.StatusBadRequest, "invalid_request")
	name, value := w.v2("1")
	w.do(http.MethodPost, batchPath, batchOf(goodBody), name, value, "Content-Type", "text/plain").wantFailure(http.StatusBadRequest, "invalid_request")
	w.wantTransfers(0)
}

// results are those of a batch that was refused.
func (r reply) results() (all []struct {
	Index             int
	Verdict, Reason   string
	Retryable         bool
	RetryAfterSeconds int
	Checks            []struct{ Name, Result string }
},
) {
	r.Helper()
	var body struct{ Results json.RawMessage }
	if err := json.Unmarshal(r.body, &body); err != nil {
		r.Fatal(err)
	}
	if err := json.Unmarshal(body.Results, &all); err != nil {
		r.Fatal(err)
	}
	return all
}

func TestBatch_OneThatFailsChargesNothing(t *testing.T) {
	w := open(t, nil)
	unknown := `{"transactionHash":"0x` + strings.Repeat("1", 64) + `"}`
	early := fmt.Sprintf(`{"transactionHash":"%s","expectations":{"minConfirmations":99999}}`, recordedTx)
	reverted := `{"transactionHash":"` + recordedTx + `","expectations":{"status":"reverted"}}`
	for name, c := range map[string]struct {
		last, reason, field string
		retryable           bool
	}{
		"mismatch":  {reverted, "expectation_mismatch", "questions.24", false},
		"not there": {unknown, "transaction_not_found", "questions.24", true},
		"too early": {early, "insufficient_confirmations", "questions.24", true},
	} {
		t.Run(name, func(t *testing.T) {
			w.TB = t
			r := w.buyBatch("1", 25, batchOf(append(many(24), c.last)...))
			f := r.wantFailure(http.StatusUnprocessableEntity, c.reason)
			if f.Field != c.field || *f.Retryable != c.retryable || r.header.Get(x402.HeaderPaymentRequired) != "" || r.header.Get(x402.HeaderPaymentResponse) != "" {
				t.Errorf("%.500s %v", r.body, r.header)
			}
			results := r.results()
			if len(results) != 25 || results[24].Reason != c.reason || results[24].Verdict != "" || results[0].Verdict != "verified" || results[23].Index != 23 {
				t.Errorf("%+v", results)
			}
			if strings.Contains(string(r.body), "signature") {
				t.Errorf("something of it is signed: %s", r.body)
			}
		})
	}
	w.TB = t
	// What time cannot mend stands for the batch, wherever it is; else the longest wait does.
	mixed := w.buyBatch("1", 3, batchOf(early, unknown, reverted))
	if f := mixed.wantFailure(http.StatusUnprocessableEntity, "expectation_mismatch"); f.Field != "questions.2" || *f.Retryable || f.RetryAfterSeconds != 0 {
		t.Errorf("%s", mixed.body)
	}
	if all := mixed.results(); !all[0].Retryable || all[0].RetryAfterSeconds == 0 || !all[1].Retryable || len(all[2].Checks) != 1 {
		t.Errorf("%+v", all)
	}
	w.wantTransfers(0)
	w.buyBatch("1", 3, batchOf(many(2)...)).wantFailure(http.StatusPaymentRequired, "payment_invalid")
	w.buyBatch("1", 3, batchOf(many(3)...)).wantAnswers(3) // the payment is as good as before
	w.wantTransfers(1)
}

// Another has carried the payment out, so that something was charged.
func TestBatch_OfMoneyThatHasMovedIsNotCalledFree(t *testing.T) {
	w := open(t, nil)
	w.sim.CarryOut("1")
	reverted := `{"transactionHash":"` + recordedTx + `","expectations":{"status":"reverted"}}`
	f := w.buyBatch("1", 2, batchOf(goodBody, reverted)).wantFailure(http.StatusUnprocessableEntity, "expectation_mismatch")
	if !strings.HasPrefix(f.Error, "Question 1: ") || strings.Contains(f.Error, "charged") {
		t.Errorf("told %s", f.Error)
	}
	w.buyBatch("1", 2, batchOf(many(2)...)).wantAnswers(2)
	w.wantTransfers(1)
}

func TestBatch_IsPaidExactly(t *testing.T) {
	w := open(t, nil)
	two := batchOf(many(2)...)
	for _, wrong := range []int{1, 3, 25} {
		r := w.buyBatch("1", wrong, two)
		r.wantFailure(http.StatusPaymentRequired, "payment_invalid")
		if c := r.challenge(); c.Accepts[0].Amount != "20000" {
			t.Errorf("the fresh challenge is over %s", c.Accepts[0].Amount)
		}
	}
	// What is signed counts, not what was accepted.
	lying := paymenttest.PayloadV2(batchOffer(2), w.payFor(1, "1"))
	w.do(http.MethodPost, batchPath, two, x402.HeaderPaymentSignature, w.encode(lying)).wantFailure(http.StatusPaymentRequired, "payment_invalid")
	w.wantTransfers(0)

	first := w.buyBatch("1", 2, two)
	first.wantAnswers(2)
	for n, body := range map[int]string{1: batchOf(many(1)...), 3: batchOf(many(3)...), 2: batchOf(many(3)[1:]...)} {
		_ = n
		w.buyBatch("1", 2, body).wantFailure(http.StatusPaymentRequired, "payment_already_used")
	}
	reversed := many(2)
	slices.Reverse(reversed)
	w.buyBatch("1", 2, batchOf(reversed...)).wantFailure(http.StatusPaymentRequired, "payment_already_used")
	w.do(http.MethodPost, base, goodBody, x402.HeaderPaymentSignature, w.encode(paymenttest.PayloadV2(batchOffer(2), w.payFor(2, "1")))).
		wantFailure(http.StatusPaymentRequired, "payment_already_used")
	if again := w.buyBatch("1", 2, two); string(again.body) != string(first.body) {
		t.Errorf("again it is %s, first %s", again.body, first.body)
	}
	w.wantTransfers(1)
	// A payment of a single question buys none of many, and the other way round.
	name, value := w.v2("2")
	w.do(http.MethodPost, batchPath, two, name, value).wantFailure(http.StatusPaymentRequired, "payment_invalid")
	w.do(http.MethodPost, base, goodBody, x402.HeaderPaymentSignature, w.encode(paymenttest.PayloadV2(batchOffer(2), w.payFor(2, "3")))).
		wantFailure(http.StatusPaymentRequired, "payment_invalid")
	w.wantTransfers(1)
}

func TestBatch_CountsOneSettlement(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.FreeSettlements = 10 })
	for i := range 2 {
		w.buyBatch(fmt.Sprint(i+1), 25, batchOf(many(25)...)).wantAnswers(25)
	}
	if status, left, _ := w.paywall.Quota(context.Background()); left != 8 || status.Reserved != 2 {
		t.Errorf("%d settlements are left: %+v", left, status)
	}
	books, _ := w.ledger.(interface {
		List(ctx context.Context, f payment.Filter) ([]payment.Record, error)
		Totals(ctx context.Context, f payment.Filter) ([]payment.Total, error)
	})
	records, err := books.List(context.Background(), payment.Filter{})
	w.must(err)
	for _, r := range records {
		if r.Operation != "batch" || r.Amount != "250000" || r.State != payment.Settled || r.Resource != publicURL+batchPath {
			t.Errorf("%+v", r)
		}
	}
	totals, err := books.Totals(context.Background(), payment.Filter{State: payment.Settled})
	w.must(err)
	if len(totals) != 1 || totals[0].Amount != "500000" || totals[0].Payments != 2 {
		t.Errorf("%+v", totals)
	}
}

func TestBatch_AHundredCopiesAtOnceAreOne(t *testing.T) {
	w := open(t, nil)
	body := batchOf(append(many(3), goodTransfer)...)
	offer, a := batchOffer(4), w.payFor(4, "1")
	var all sync.WaitGroup
	replies := make([]reply, 100)
	for i := range replies {
		all.Go(func() {
			if i%2 == 0 {
				replies[i] = w.do(http.MethodPost, batchPath, body, x402.HeaderPaymentSignature, w.encode(paymenttest.PayloadV2(offer, a)))
			} else {
				replies[i] = w.do(http.MethodPost, batchPath, body, x402.HeaderPaymentV1, w.encode(paymenttest.PayloadV1(offer, a)))
			}
		})
	}
	all.Wait()
	for _, r := range replies {
		r.wantAnswers(4)
		if string(r.body) != string(replies[0].body) {
			t.Fatal("two answers differ")
		}
	}
	w.wantTransfers(1)
}

func TestBatch_AskedAgainIsReused(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.ReuseWindow, o.ReusesPerPayer = 24*time.Hour, 20 })
	body := batchOf(many(2)...)
	first := w.buyBatch("1", 2, body)
	first.wantAnswers(2)
	again := w.buyBatch("2", 2, body)
	again.wantAnswers(2)
	if s := again.settlement(x402.HeaderPaymentResponse); s.Transaction != paymenttest.Hash(1) || string(s.Extra) != `{"repeated":true}` || string(again.body) != string(first.body) {
		t.Errorf("%+v", s)
	}
	w.buyBatch("3", 3, batchOf(many(3)...)).wantAnswers(3) // another question
	w.wantTransfers(2)
	identified := func(nonce string, n int) reply {
		p := paymenttest.WithIdentifier(paymenttest.PayloadV2(batchOffer(n), w.payFor(n, nonce)), "an-identifier-of-mine")
		return w.do(http.MethodPost, batchPath, batchOf(many(n)...), x402.HeaderPaymentSignature, w.encode(p))
	}
	identified("4", 4).wantAnswers(4)
	identified("5", 4).wantAnswers(4)
	identified("6", 5).wantFailure(http.StatusBadRequest, "payment_identifier_conflict")
	w.wantTransfers(3)
}

// What strangers may make the nodes do unpaid does not grow by asking for much at once.
func TestBatch_CountsAsManyAttemptsAsQuestions(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.AttemptsPerPayer, o.AttemptsPerAddress = 60, 60 })
	failing := batchOf(append(many(24), `{"transactionHash":"`+recordedTx+`","expectations":{"status":"reverted"}}`)...)
	for i := range 2 {
		w.buyBatch(fmt.Sprint(i+1), 25, failing).wantFailure(http.StatusUnprocessableEntity, "expectation_mismatch")
	}
	w.buyBatch("3", 25, failing).wantFailure(http.StatusServiceUnavailable, "too_many_unpaid_attempts")
	w.advance(time.Minute)
	for i := range 5 { // what is paid is given back
		w.buyBatch(fmt.Sprint(10+i), 25, batchOf(many(25)...)).wantAnswers(25)
	}
	w.wantTransfers(5)
}

func TestBatch_AsksANodeForFewTransactionsAtOnce(t *testing.T) {
	w := open(t, nil)
	const each = "0x%064x"
	var questions []string
	for i := range 25 {
		questions = append(questions, fmt.Sprintf(`{"transactionHash":"`+each+`"}`, i+1))
	}
	w.node.Play(chaintest.Script{Delay: 10 * time.Millisecond})
	w.node.Forget()
	w.buyBatch("1", 25, batchOf(questions...)).wantFailure(http.StatusUnprocessableEntity, "transaction_not_found")
	asked, most := 0, 0
	for _, one := range w.node.Exchanges() {
		if !slices.Contains(one.Methods, "eth_getTransactionByHash") {
			continue
		}
		asked++
		at := 0
		for _, other := range w.node.Exchanges() {
			if slices.Contains(other.Methods, "eth_getTransactionByHash") && !other.Start.After(one.Start) && other.End.After(one.Start) {
				at++
			}
		}
		most = max(most, at)
	}
	if asked < 25 || most > 4 {
		t.Errorf("%d questions came to the node, %d of them at a time", asked, most)
	}
}

func TestBatch_IsDescribedToWhoOpensIt(t *testing.T) {
	w := open(t, nil)
	r := w.do(http.MethodGet, batchPath, "")
	r.wantFailure(http.StatusMethodNotAllowed, "method_not_allowed")
	if page := w.do(http.MethodGet, batchPath, "", "Accept", "text/html"); !strings.Contains(string(page.body), "up to 25") {
		t.Errorf("%s", page.body)
	}
	var sample map[string]any
	w.must(json.Unmarshal(w.do(http.MethodPost, batchPath, "").challenge().Extensions["bazaar"], &sample))
	info, _ := sample["info"].(map[string]any)
	input, _ := info["input"].(map[string]any)
	text, err := json.Marshal(input["body"])
	w.must(err)
	if c := w.do(http.MethodPost, batchPath, string(text)).challenge(); c.Accepts[0].Amount != "20000" {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff("POST", input["method"]); diff != "" {
		t.Error(diff)
	}
}

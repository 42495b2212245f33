package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// maxAnswer bounds what is read of one answer, in bytes. A receipt with the proof of a very large transaction
// fits.
const maxAnswer = 16 << 20

// answer is a seller's response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// refusal is an answer that is not what was requested. Sellers explain it in the body, in texts that are cut at
// maxQuote characters.
type refusal struct {
	Status    int    `json:"code"`
	Text      string `json:"error"`
	Reason    string `json:"reason"`
	Retryable bool   `json:"retryable"`
	// RetryAfterSeconds is 0 where the body does not say.
	RetryAfterSeconds int `json:"retryAfterSeconds"`
	// PaymentReason is the payment protocol's reason for a refused payment.
	PaymentReason string          `json:"paymentReason"`
	Checks        json.RawMessage `json:"checks"`
	// until is when the payment that was sent can last be settled; zero when none was sent.
	until time.Time
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("the seller answers %d: %s", r.Status, r.Text)
	for _, detail := range []string{r.Reason, r.PaymentReason} {
		if detail != "" {
			text += " (" + detail + ")"
		}
	}
	if len(r.Checks) > 0 {
		text += " " + quoted(string(r.Checks), maxChecks)
	}
	return text
}

func (a answer) refusal() *refusal {
	r := &refusal{}
	if json.Unmarshal(a.body, r) != nil || r.Text == "" {
		r.Text = http.StatusText(a.status)
	}
	for _, text := range []*string{&r.Text, &r.Reason, &r.PaymentReason} {
		*text = quoted(*text, maxQuote)
	}
	r.Status = a.status
	return r
}

// mayChange reports whether the same request may be answered differently later.
func (r *refusal) mayChange() bool {
	return r.Retryable || r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests
}

// notReady is the reason of a verifier that is not ready, such as while it starts.
const notReady = "not_ready"

// denied is a refusal by a seller that holds a signed payment. Only the seller says that nothing was charged:
// the outcome is unknown until the payment can no longer be settled.
type denied struct{ *refusal }

func (d *denied) Error() string {
	return d.refusal.Error() + "; the seller says that nothing was charged, but it could still settle the " +
		"payment until " + d.until.Format(time.RFC3339) +
		", so that there is no new one before; the same command sends the same payment again"
}

func (d *denied) Unwrap() error { return d.refusal }

// after returns the error for r, the final refusal of a payment that was sent. That is errUndecided with r if r does
// not come from a verifier; a *denied if the payment can still be settled and r is a 402 or the outcome was open
// before; else r.
func (r *refusal) after(open bool) error {
	refused := r.Status == http.StatusPaymentRequired
	switch {
	case !refused && !r.isUncharged():
		return errors.Join(errUndecided, r)
	case (open || refused) && time.Now().Before(r.until):
		return &denied{r}
	}
	return r
}

// unchargedReasons are reasons of a 503 that a verifier returns only when the call has moved no money.
var unchargedReasons = []string{
	"facilitator_limit", "facilitator_unavailable", "ledger_unavailable", "too_many_unpaid_attempts", notReady,
}

// isUncharged reports whether the answer says that the payment moves no money. A 4xx with a reason, as a verifier
// gives, says so; neither a 402 nor a 5xx does, unless its reason is one of unchargedReasons. Any other answer is
// that of a proxy or of another server, which does not know.
func (r *refusal) isUncharged() bool {
	isFault := r.Status >= http.StatusBadRequest && r.Status < http.StatusInternalServerError
	return isFault && r.Status != http.StatusPaymentRequired && r.Reason != "" ||
		slices.Contains(unchargedReasons, r.Reason)
}

// challenge reads the offers of a 402 answer. For an answer with another status it returns a *refusal.
func (a answer) challenge() (x402.PaymentRequired, error) {
	var c x402.PaymentRequired
	if a.status != http.StatusPaymentRequired {
		return c, a.refusal()
	}
	if err := x402.Decode(a.header.Get(x402.HeaderPaymentRequired), &c); err != nil {
		// Not wrapped: it is no fault of the caller's arguments, and may hold the seller's words.
		return c, errors.New("read the seller's challenge: " + err.Error())
	}
	if c.X402Version != x402.V2 {
		return c, errors.New("the seller's challenge is not of x402 version 2")
	}
	return c, nil
}

// settled reads the seller's report of the payment. It returns the zero value if there is none that can be read.
// The report is the seller's word, and proves nothing.
func (a answer) settled() x402.SettleResponse {
	var s x402.SettleResponse
	if x402.Decode(a.header.Get(x402.HeaderPaymentResponse), &s) != nil {
		return x402.SettleResponse{}
	}
	return s
}

// get fetches what the seller has at a URL. For an answer other than 200 the error is a *refusal, beside the answer.
func (b *buyer) get(ctx context.Context, url string) (answer, error) {
	got, err := b.exchange(ctx, http.MethodGet, url, nil, "")
	if err == nil && got.status != http.StatusOK {
		err = got.refusal()
	}
	return got, err
}

// exchange sends one request, and reads an answer of any status and of at most maxAnswer bytes. payment may be
// "".
func (b *buyer) exchange(ctx context.Context, method, url string, body []byte, payment string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("request to the seller: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if payment != "" {
		req.Header.Set(x402.HeaderPaymentSignature, payment)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("request to the seller: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, fmt.Errorf("read the seller's answer: %w", err)
	}
	if len(text) > maxAnswer {
		return answer{}, errors.New("the seller's answer is too large")
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: text}, nil
}

package suite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// payer is who pays. Nobody here looks at his signatures: a seller leaves them
// to the facilitator, because a wallet may be a contract.
const payer = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"

// stock is how many payments are made for each second of a turn, before it, which
// is more than any seller sells.
const stock = 10_000

// payments gives requests with a fresh payment each, for what a seller offers, as
// many as may be needed for so long.
func (s *Suite) payments(ctx context.Context, addr, body string, length time.Duration) (func() []byte, error) {
	offer, err := challenge(ctx, addr, body)
	if err != nil {
		return nil, err
	}
	made := make([][]byte, int(stock*length.Seconds()))
	for i := range made {
		if made[i], err = paid(offer, body, s.Now()); err != nil {
			return nil, err
		}
	}
	return inTurn(made), nil
}

// paid makes a request with a payment.
func paid(offer x402.PaymentRequired, body string, now time.Time) ([]byte, error) {
	header, err := paymentFor(offer, now)
	return request(http.MethodPost, verifyPath, body, x402.HeaderPaymentSignature+": "+header), err
}

// paymentFor makes the header that pays once for an offer.
func paymentFor(offer x402.PaymentRequired, now time.Time) (string, error) {
	var random [32 + 65]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	terms := offer.Accepts[0]
	return x402.Encode(x402.Payload{
		X402Version: x402.V2, Resource: &offer.Resource, Accepted: terms,
		Payload: x402.ExactPayload{
			Signature: fmt.Sprintf("0x%x", random[32:]),
			Authorization: x402.Authorization{
				From: payer, To: terms.PayTo, Value: terms.Amount, Nonce: fmt.Sprintf("0x%x", random[:32]),
				ValidAfter:  strconv.FormatInt(now.Add(-time.Minute).Unix(), 10),
				ValidBefore: strconv.FormatInt(now.Add(time.Duration(terms.MaxTimeoutSeconds)*time.Second).Unix(), 10),
			},
		},
	})
}

// challenge asks a seller what a call costs.
func challenge(ctx context.Context, addr, body string) (offer x402.PaymentRequired, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+verifyPath, strings.NewReader(body))
	if err != nil {
		return offer, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return offer, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusPaymentRequired {
		return offer, fmt.Errorf("offer of %s: %s: %s, %w", addr, resp.Status, text, err)
	}
	if err := x402.Decode(resp.Header.Get(x402.HeaderPaymentRequired), &offer); err != nil {
		return offer, err
	}
	if len(offer.Accepts) != 1 {
		return offer, errors.New("an offer with one way to pay was expected")
	}
	return offer, nil
}

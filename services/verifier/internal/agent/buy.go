package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// buyer buys one answer.
type buyer struct {
	client  *http.Client
	key     *ecdsa.PrivateKey
	most    *big.Int // atomic units
	journal journal
	// patience bounds how long one payment is repeated.
	patience time.Duration
	say      func(format string, args ...any)
	now      func() time.Time
}

// purchase is what was bought.
type purchase struct {
	Answer  []byte
	Offer   x402.Requirements
	Payer   string
	Nonce   string
	Settled x402.SettleResponse
	Resumed bool
}

// errUndecided means that a payment was sent and its fate is not known yet.
var errUndecided = errors.New("the payment was sent and its fate is not known yet; run the same command again, it sends the same payment")

// buy gets the answer to a POST of body to url, with the payment that the
// journal has for it, else with a new one.
func (b buyer) buy(ctx context.Context, url string, body []byte) (purchase, error) {
	earlier, err := b.journal.find(b.payer(), url, body)
	if err != nil {
		return purchase{}, err
	}
	if earlier != nil {
		b.say("An earlier payment for this very request is in the journal; it is sent again instead of a second one.")
		p, err := b.pay(ctx, *earlier)
		p.Resumed = true
		var r *refusal
		if !errors.As(err, &r) || r.Status != http.StatusPaymentRequired {
			return p, err
		}
		if b.now().Before(earlier.ValidBefore) {
			return p, fmt.Errorf("%w; the earlier payment could still be taken until %s, so there is no new one before", err, earlier.ValidBefore.Format(time.RFC3339))
		}
		b.say("The seller did not take it, and it has expired: a new one is made.")
		if err := b.journal.drop(*earlier); err != nil {
			return p, err
		}
	}
	e, err := b.sign(ctx, url, body)
	if err != nil {
		return purchase{}, err
	}
	return b.pay(ctx, e)
}

func (b buyer) payer() string { return crypto.PubkeyToAddress(b.key.PublicKey).Hex() }

// sign asks for the price and signs a payment, which is in the journal when it
// returns.
func (b buyer) sign(ctx context.Context, url string, body []byte) (entry, error) {
	b.say("Asking %s", url)
	asked, err := exchange(ctx, b.client, http.MethodPost, url, body, "")
	if err != nil {
		return entry{}, err
	}
	challenge, err := asked.challenge()
	if err != nil {
		return entry{}, err
	}
	offer, price, err := choose(challenge.Accepts, b.most)
	if err != nil {
		return entry{}, err
	}
	b.say("402 Payment Required: %s", challenge.Resource.Description)
	b.say("  price    %s USD (%s units of token %s on %s)", dollars(price), offer.Amount, offer.Asset, offer.Network)
	b.say("  payee    %s", offer.PayTo)
	a, err := b.authorization(offer, price)
	if err != nil {
		return entry{}, err
	}
	header, err := b.seal(challenge, offer, a)
	if err != nil {
		return entry{}, err
	}
	e := entry{
		URL: url, Body: string(body), Offer: offer, Payer: b.payer(), Nonce: a.Nonce.Hex(), Header: header,
		ValidBefore: time.Unix(a.ValidBefore.Int64(), 0).UTC(),
	}
	b.say("Signed the payment (EIP-3009) as %s, good until %s", e.Payer, e.ValidBefore.Format(time.RFC3339))
	return e, b.journal.keep(e)
}

// maxWindow bounds how long a payment may be taken, whatever the seller asks.
const maxWindow = 10 * time.Minute

func (b buyer) authorization(offer x402.Requirements, price *big.Int) (eip3009.Authorization, error) {
	if !common.IsHexAddress(offer.PayTo) {
		return eip3009.Authorization{}, ErrNoOffer
	}
	window := min(time.Duration(max(offer.MaxTimeoutSeconds, 1))*time.Second, maxWindow)
	a := eip3009.Authorization{
		From: crypto.PubkeyToAddress(b.key.PublicKey), To: common.HexToAddress(offer.PayTo), Value: price,
		ValidAfter: big.NewInt(0), ValidBefore: big.NewInt(b.now().Add(window).Unix()),
	}
	_, err := rand.Read(a.Nonce[:])
	return a, err
}

// seal signs and encodes the payment. The challenge's resource and extensions
// are echoed, as official clients do.
func (b buyer) seal(c x402.PaymentRequired, offer x402.Requirements, a eip3009.Authorization) (string, error) {
	chainID, ok := x402.ChainID(offer.Network)
	name, named := offer.Extra["name"].(string)
	version, versioned := offer.Extra["version"].(string)
	if !ok || !named || !versioned {
		return "", ErrNoOffer
	}
	domain := eip3009.Domain{Name: name, Version: version, ChainID: chainID, Token: common.HexToAddress(offer.Asset)}
	signature, err := a.Sign(domain, b.key)
	if err != nil {
		return "", err
	}
	return x402.Encode(x402.Payload{
		X402Version: x402.V2, Resource: &c.Resource, Accepted: offer, Extensions: c.Extensions,
		Payload: x402.ExactPayload{Signature: signature, Authorization: a.Wire()},
	})
}

// pay sends a payment until the seller answers for good. The journal forgets it
// only with the answer in hand.
func (b buyer) pay(ctx context.Context, e entry) (purchase, error) {
	p := purchase{Offer: e.Offer, Payer: e.Payer, Nonce: e.Nonce}
	end := b.now().Add(b.patience)
	for {
		got, err := exchange(ctx, b.client, http.MethodPost, e.URL, []byte(e.Body), e.Header)
		if err == nil && got.status == http.StatusOK {
			p.Answer, p.Settled = got.body, got.settled()
			b.say("Paid. Transaction of the payment: %s", p.Settled.Transaction)
			return p, nil
		}
		pause := 2 * time.Second
		if err == nil {
			after, waits := got.retryAfter()
			if r := got.refusal(); !waits || !r.Retryable && got.status != http.StatusServiceUnavailable {
				return p, r
			}
			pause = max(after, time.Second)
			err = got.refusal()
		}
		if b.now().Add(pause).After(end) {
			return p, errors.Join(errUndecided, err)
		}
		b.say("Not yet: %v. The same payment is sent again in %s.", err, pause)
		select {
		case <-ctx.Done():
			return p, errors.Join(errUndecided, ctx.Err())
		case <-time.After(pause):
		}
	}
}

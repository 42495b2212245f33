package agent

import (
	"context"
	"crypto/rand"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// maxWindowSeconds bounds how long a payment may be taken, whatever the seller
// requests.
const maxWindowSeconds = 600

// sign requests the price and signs a payment, which is in the journal when it
// returns. When another run was faster, its payment is the one.
func (b buyer) sign(ctx context.Context, url string, body []byte) (entry, error) {
	b.print("Requesting %s", url)
	unpaid, err := exchange(ctx, b.client, http.MethodPost, url, body, "")
	if err != nil {
		return entry{}, err
	}
	challenge, err := unpaid.challenge()
	if err != nil {
		return entry{}, err
	}
	offer, price, err := choose(challenge.Accepts, b.most, b.network)
	if err != nil {
		return entry{}, err
	}
	b.print("402 Payment Required")
	b.print("  for      %s", challenge.Resource.URL)
	b.print("           %s", challenge.Resource.Description)
	b.print("  price    %s USD (%s units of token %s on %s)", dollars(price), offer.Amount, offer.Asset, offer.Network)
	b.print("  payee    %s", offer.PayTo)
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
		ValidBefore: time.Unix(a.ValidBefore.Int64(), 0).UTC(), Demo: b.demo,
	}
	b.print("Signed the payment (EIP-3009) as %s, good until %s", e.Payer, e.ValidBefore.Format(time.RFC3339))
	return b.journal.keep(e)
}

func (b buyer) authorization(offer x402.Requirements, price *big.Int) (eip3009.Authorization, error) {
	if !common.IsHexAddress(offer.PayTo) {
		return eip3009.Authorization{}, ErrNoOffer
	}
	window := time.Duration(min(max(offer.MaxTimeoutSeconds, 1), maxWindowSeconds)) * time.Second
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

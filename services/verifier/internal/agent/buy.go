package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/retryafter"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

const (
	// usualPause is the wait before a payment is sent again when the seller
	// does not send how long; longestPause bounds what the seller sends.
	usualPause   = 2 * time.Second
	longestPause = 365 * 24 * time.Hour
	// clockSkew is how far the chain's clock may be behind ours: only so long
	// after its end is a payment given up.
	clockSkew = 15 * time.Second
	// maxWindowSeconds bounds how long a payment may be taken, whatever the seller
	// requests.
	maxWindowSeconds = 600
)

// purchase is a payment with what was bought.
type purchase struct {
	entry
	answer  []byte
	settled x402.SettleResponse
	// resumed means that a payment of an earlier run was sent again.
	resumed bool
}

var (
	// errUndecided means that a payment was sent and its outcome is not known yet.
	errUndecided = errors.New("the payment was sent and its outcome is not known yet; run the same command again, it sends the same payment")
	// errExpired means that a payment of an earlier run was not settled and
	// cannot be settled any more.
	errExpired = errors.New("the earlier payment has expired")
)

// buy gets the answer to the request of e, with the payment that the journal has
// for it, else with a new one.
func (r *run) buy(ctx context.Context, e entry) (purchase, error) {
	earlier, err := r.journal.find(e)
	if err != nil {
		return purchase{}, err
	}
	if earlier != nil {
		if p, err := r.again(ctx, *earlier); !errors.Is(err, errExpired) {
			return p, err
		}
		r.print("A new payment is made.")
	}
	if e, err = r.sign(ctx, e); err != nil {
		return purchase{}, err
	}
	return r.pay(ctx, e, false)
}

// again sends the payment of an earlier run. With errExpired the journal has
// dropped it: it bought nothing and never will.
func (r *run) again(ctx context.Context, e entry) (purchase, error) {
	if _, _, err := choose([]x402.Requirements{e.Offer}, r.most, r.network); err != nil {
		return purchase{}, fmt.Errorf("an earlier run signed a payment for this request that this one may not send: %w", err)
	}
	r.print("An earlier payment for this very request is in the journal; it is sent again instead of a second one.")
	p, err := r.pay(ctx, e, true)
	p.resumed = true
	var refused *refusal
	if errors.Is(err, errUndecided) || !errors.As(err, &refused) {
		return p, err
	}
	if until := e.ValidBefore.Add(clockSkew); time.Now().Before(until) {
		return p, fmt.Errorf("%w; the earlier payment could still be settled until %s, so there is no new one before", err, until.Format(time.RFC3339))
	}
	r.print("The seller did not accept it (%s), and it has expired.", refused.Reason)
	if err := r.journal.drop(e); err != nil {
		return p, err
	}
	return p, errExpired
}

// sign requests the price and signs a payment for the request of e, which is in the
// journal when it returns. When another run was faster, its payment is the one.
func (r *run) sign(ctx context.Context, e entry) (entry, error) {
	r.print("Requesting %s", e.URL)
	unpaid, err := r.exchange(ctx, http.MethodPost, e.URL, []byte(e.Body), "")
	if err != nil {
		return e, err
	}
	challenge, err := unpaid.challenge()
	if err != nil {
		return e, err
	}
	offer, price, err := choose(challenge.Accepts, r.most, r.network)
	if err != nil {
		return e, err
	}
	r.print("402 Payment Required")
	r.print("  for      %s", challenge.Resource.URL)
	r.print("           %s", challenge.Resource.Description)
	r.print("  price    %s USD (%s units of token %s on %s)", x402.Dollars(price), offer.Amount, offer.Asset, offer.Network)
	r.print("  payee    %s", offer.PayTo)
	chainID, isChain := x402.ChainID(offer.Network)
	name, hasName := offer.Extra["name"].(string)
	version, hasVersion := offer.Extra["version"].(string)
	if !isChain || !hasName || !hasVersion || !common.IsHexAddress(offer.PayTo) {
		return e, ErrNoOffer
	}
	window := time.Duration(min(max(offer.MaxTimeoutSeconds, 1), maxWindowSeconds)) * time.Second
	a := eip3009.Authorization{
		From: common.HexToAddress(e.Payer), To: common.HexToAddress(offer.PayTo), Value: price,
		ValidAfter: big.NewInt(0), ValidBefore: big.NewInt(time.Now().Add(window).Unix()),
	}
	_, _ = rand.Read(a.Nonce[:]) // never fails
	domain := eip3009.Domain{Name: name, Version: version, ChainID: chainID, Token: common.HexToAddress(offer.Asset)}
	signature, err := a.Sign(domain, r.key)
	if err != nil {
		return e, err
	}
	// The challenge's resource and extensions are echoed, as official clients do.
	e.Header, err = x402.Encode(x402.Payload{
		X402Version: x402.V2, Resource: &challenge.Resource, Accepted: offer, Extensions: challenge.Extensions,
		Payload: x402.ExactPayload{Signature: signature, Authorization: a.Wire()},
	})
	if err != nil {
		return e, err
	}
	e.Offer, e.Nonce, e.ValidBefore = offer, a.Nonce.Hex(), time.Unix(a.ValidBefore.Int64(), 0).UTC()
	r.print("Signed the payment (EIP-3009) as %s, good until %s", e.Payer, e.ValidBefore.Format(time.RFC3339))
	return r.journal.keep(e)
}

// pay sends a payment until the seller answers for good. open means that it was
// sent before and its outcome is not known. The journal drops nothing here.
func (r *run) pay(ctx context.Context, e entry, open bool) (purchase, error) {
	p := purchase{entry: e}
	end := time.Now().Add(r.maxWait)
	ctx, cancel := context.WithTimeout(ctx, r.maxWait)
	defer cancel()
	for {
		got, err := r.exchange(ctx, http.MethodPost, e.URL, []byte(e.Body), e.Header)
		if err == nil && got.status == http.StatusOK {
			p.answer, p.settled = got.body, got.settled()
			r.print("Paid. Transaction of the payment: %s", p.settled.Transaction)
			return p, nil
		}
		pause := usualPause
		if err != nil {
			open = open || !isUnsent(err)
		} else {
			refused := got.refusal()
			if !refused.mayChange() {
				return p, refused
			}
			open = open || !refused.isUncharged()
			pause, err = retryafter.Read(got.header, time.Now(), usualPause, longestPause), refused
		}
		if time.Now().Add(pause).After(end) {
			return p, unfinished(open, err)
		}
		r.print("Not yet: %v. The same payment is sent again in %s.", err, pause)
		select {
		case <-ctx.Done():
			return p, unfinished(open, errors.Join(err, ctx.Err()))
		case <-time.After(pause):
		}
	}
}

func unfinished(open bool, err error) error {
	if open {
		return errors.Join(errUndecided, err)
	}
	return err
}

// isUnsent reports whether a request reached no server.
func isUnsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

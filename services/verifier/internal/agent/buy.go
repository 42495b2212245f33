package agent

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/pkg/x402"
)

const (
	// usualPause is the wait before a payment is sent again when the seller
	// does not send how long.
	usualPause = 2 * time.Second
	// clockSkew is how far the chain's clock may be behind ours: only so long
	// after its end is a payment given up.
	clockSkew = 15 * time.Second
)

// buyer buys one answer.
type buyer struct {
	client  *http.Client
	key     *ecdsa.PrivateKey
	most    *big.Int // atomic units
	network string   // the only one to pay on, "" for any known one
	journal journal
	// demo means that the request is the agent's own.
	demo bool
	// maxWait bounds how long one payment is repeated.
	maxWait time.Duration
	print   func(format string, args ...any)
	now     func() time.Time
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

var (
	// errUndecided means that a payment was sent and its outcome is not known yet.
	errUndecided = errors.New("the payment was sent and its outcome is not known yet; run the same command again, it sends the same payment")
	// errExpired means that a payment of an earlier run was not settled and
	// cannot be settled any more.
	errExpired = errors.New("the earlier payment has expired")
)

// buy gets the answer to a POST of body to url, with the payment that the
// journal has for it, else with a new one.
func (b buyer) buy(ctx context.Context, url string, body []byte) (purchase, error) {
	earlier, err := b.journal.find(b.payer(), url, body)
	if err != nil {
		return purchase{}, err
	}
	if earlier != nil {
		if p, err := b.again(ctx, *earlier); !errors.Is(err, errExpired) {
			return p, err
		}
		b.print("A new payment is made.")
	}
	e, err := b.sign(ctx, url, body)
	if err != nil {
		return purchase{}, err
	}
	return b.pay(ctx, e, false)
}

func (b buyer) payer() string { return crypto.PubkeyToAddress(b.key.PublicKey).Hex() }

// again sends the payment of an earlier run. With errExpired the journal has
// dropped it: it bought nothing and never will.
func (b buyer) again(ctx context.Context, e entry) (purchase, error) {
	if _, _, err := choose([]x402.Requirements{e.Offer}, b.most, b.network); err != nil {
		return purchase{}, fmt.Errorf("an earlier run signed a payment for this request that this one may not send: %w", err)
	}
	b.print("An earlier payment for this very request is in the journal; it is sent again instead of a second one.")
	p, err := b.pay(ctx, e, true)
	p.Resumed = true
	var r *refusal
	if errors.Is(err, errUndecided) || !errors.As(err, &r) {
		return p, err
	}
	if until := e.ValidBefore.Add(clockSkew); b.now().Before(until) {
		return p, fmt.Errorf("%w; the earlier payment could still be settled until %s, so there is no new one before", err, until.Format(time.RFC3339))
	}
	b.print("The seller did not accept it (%s), and it has expired.", r.Reason)
	if err := b.journal.drop(e); err != nil {
		return p, err
	}
	return p, errExpired
}

// pay sends a payment until the seller answers for good. open means that it was
// sent before and its outcome is not known. The journal drops nothing here.
func (b buyer) pay(ctx context.Context, e entry, open bool) (purchase, error) {
	p := purchase{Offer: e.Offer, Payer: e.Payer, Nonce: e.Nonce}
	end := b.now().Add(b.maxWait)
	ctx, cancel := context.WithTimeout(ctx, b.maxWait)
	defer cancel()
	for {
		got, err := exchange(ctx, b.client, http.MethodPost, e.URL, []byte(e.Body), e.Header)
		if err == nil && got.status == http.StatusOK {
			p.Answer, p.Settled = got.body, got.settled()
			b.print("Paid. Transaction of the payment: %s", p.Settled.Transaction)
			return p, nil
		}
		pause := usualPause
		switch {
		case err != nil:
			open = open || !unsent(err)
		default:
			r := got.refusal()
			if !r.mayChange() {
				return p, r
			}
			open = open || !r.uncharged()
			pause, err = got.retryAfter(usualPause), r
		}
		if b.now().Add(pause).After(end) {
			return p, unfinished(open, err)
		}
		b.print("Not yet: %v. The same payment is sent again in %s.", err, pause)
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

// unsent reports whether a request reached no server.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

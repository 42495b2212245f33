package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/retryafter"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

const (
	// usualPause is the wait before a request is sent again when no Retry-After of the seller can be read.
	// longestPause is the longest wait that Retry-After may ask for.
	usualPause   = 2 * time.Second
	longestPause = 365 * 24 * time.Hour
	// clockSkew is how far the chain's clock may be behind ours: a payment is given up only this long after its
	// ValidBefore.
	clockSkew = 15 * time.Second
	// readyWait bounds how long a seller that is not ready is asked for its price. It is shorter than
	// answerWithin.
	readyWait = 30 * time.Second
	// maxWindowSeconds bounds how long after it is signed a payment can be settled, whatever the seller
	// requests.
	maxWindowSeconds = 600
	keyPath          = "/.well-known/receipt-signing-key.json"
)

// buyer buys answers of one seller with one key.
type buyer struct {
	client *http.Client
	// url is the seller's address, without a slash at its end.
	url   string
	key   *ecdsa.PrivateKey
	payer string
	// most is the most that one payment may cost, in atomic units.
	most *big.Int
	// network is the only network to pay on, "" for any that has a known token.
	network string
	limits  limits
	journal journal
	// keysFile names the key document that receipts are checked against; "" stands for the seller's own.
	keysFile string
	// maxWait bounds how long a seller is asked for its price, and how long one payment is sent again. finalWait
	// bounds the wait of [buyer.waitFinal], before anything is signed.
	maxWait, finalWait time.Duration
	// batch has the questions that a body of batchPath asks. Before a payment for it is signed, [buyer.waitFinal]
	// waits for each.
	batch []question
	// isBrief bounds the retries of a payment of which every answer said that it moved no money: it is sent
	// again within finalWithin at most, and not after a 422, by which the evidence is not there. The caller gets
	// the refusal.
	isBrief bool
	print   func(format string, args ...any)
	// approve is called before a new payment is counted and signed, and stops it with an error; nil approves
	// all.
	approve func(context.Context, x402.Requirements) error
	// answered reports whether the answer has been saved meanwhile, so that there is nothing to pay for; nil
	// means never.
	answered func() (bool, error)
}

// purchase is a request with the payment that was sent for it, if any, and the answer.
type purchase struct {
	entry
	answer  []byte
	settled x402.SettleResponse
	// resumed means that the payment was in the journal already.
	resumed bool
}

// isReused reports whether the seller says that an earlier payment of the payer has bought the answer, and that
// the payment of p is not spent. settled is then about the earlier payment.
func (p purchase) isReused() bool {
	var extra struct {
		Reused bool `json:"repeated"`
	}
	return json.Unmarshal(p.settled.Extra, &extra) == nil && extra.Reused
}

var (
	// errUndecided means that a payment was or may have been sent, and is not done with: its outcome is not known
	// yet, its answer could not be checked, saved or reported, or the journal could not drop it.
	errUndecided = errors.New("the payment was sent and its outcome is not known yet; run the same command again, it " +
		"sends the same payment")
	// errHeld means that the payment of an earlier run, which may have been settled, is not sent again, or that what
	// would show whether there is one cannot be read.
	errHeld = errors.New("an earlier run may have signed a payment for this request, and this one does not send it")
	// errExpired means that there is no payment of an earlier run to send again: the journal has none, or the
	// seller has refused it and it cannot be settled any more.
	errExpired = errors.New("the earlier payment has expired")
	// errAnswered means that the answer has been saved meanwhile, and that nothing was signed.
	errAnswered = errors.New("the answer is there")
	// errFaster means that another run has signed a payment for the same question, and may have sent it.
	errFaster = errors.New("another run has signed a payment for this question")
	// errReceipt means that a paid answer does not hold, or that the key document for it is malformed.
	errReceipt = errors.New("the receipt was paid for, but does not hold")
)

// entryOf returns the journal's entry for a question, without a payment.
func (b *buyer) entryOf(q question) entry {
	return entry{URL: b.url + q.path, Body: q.body, Payer: b.payer}
}

// buy gets the answer to the request of e, with the payment that the journal has for it. If there is none, or it
// was refused and has expired, it makes a new one.
func (b *buyer) buy(ctx context.Context, e entry) (purchase, error) {
	earlier, err := b.journal.find(e)
	if err != nil {
		return purchase{}, fmt.Errorf("%w: %w", errHeld, err)
	}
	if earlier != nil {
		if p, err := b.replay(ctx, *earlier); !errors.Is(err, errExpired) {
			return p, err
		}
		b.print("A new payment is made.")
	}
	payable, err := b.sign(ctx, e)
	if errors.Is(err, errFaster) {
		return b.buy(ctx, e)
	} else if err != nil {
		return purchase{}, err
	}
	return b.pay(ctx, payable, false)
}

// replay sends the payment of an earlier run again. It returns errHeld, and sends nothing, if choose does not take the
// payment's offer by now, or if the payee is not the pinned one or cannot be compared with it. It returns errExpired
// when the seller has refused the payment and it has expired; the journal has dropped it then.
func (b *buyer) replay(ctx context.Context, e entry) (purchase, error) {
	_, _, err := choose([]x402.Requirements{e.Offer}, b.most, b.network)
	if err == nil {
		err = b.limits.locked(func() error { return b.limits.pin(b.url, e.Offer.Network, e.Offer.PayTo) })
	}
	if err != nil {
		return purchase{resumed: true}, fmt.Errorf("%w: %w", errHeld, err)
	}
	b.print("An earlier payment for this very request is in the journal; it is sent again instead of a second one.")
	flight.Pin(ctx)
	p, err := b.pay(ctx, e, true)
	p.resumed = true
	var refused *refusal
	if errors.Is(err, errUndecided) || !errors.As(err, &refused) {
		return p, err
	}
	if time.Now().Before(e.lastMoment()) {
		return p, err
	}
	b.print("The seller did not accept it (%s), and it has expired.", refused.Reason)
	if err := b.forget(e); err != nil {
		return p, err
	}
	return p, errExpired
}

// isOpen reports whether the journal has a payment to the seller for a question about a transaction, or cannot be read.
func (b *buyer) isOpen(hash string) bool {
	all, err := b.journal.all(b.payer)
	return err != nil || hash != "" && slices.ContainsFunc(all, func(e entry) bool {
		return strings.HasPrefix(e.URL, b.url+"/") && strings.EqualFold(hashOf([]byte(e.Body)), hash)
	})
}

// forget drops a payment from the journal. It still counts against the cap of the day. A later payment for the
// same question stays in the journal.
func (b *buyer) forget(e entry) error {
	return b.limits.locked(func() error {
		if err := b.limits.close(e); err != nil {
			return err
		}
		kept, err := b.journal.find(e)
		if err != nil || kept == nil || kept.Nonce != e.Nonce {
			return err
		}
		return b.journal.drop(*kept)
	})
}

// sign requests the price and signs a payment for the request of e. When it returns no error, the payment is
// counted and in the journal. When another run was faster, it returns errFaster, or errAnswered if that run
// has saved the answer. Nothing is signed where [buyer.waitFinal] returns an error. ErrNoOffer, ErrPriceAboveCap,
// ErrPayee, ErrDayCap; the errors of challenge and of approve.
func (b *buyer) sign(ctx context.Context, e entry) (entry, error) {
	asked := []entry{e}
	for _, q := range b.batch {
		asked = append(asked, b.entryOf(q))
	}
	for _, one := range asked {
		if err := b.waitFinal(ctx, one); err != nil {
			return e, err
		}
	}
	b.print("Requesting %s", e.URL)
	challenge, err := b.challenge(ctx, e.URL, e.Body)
	if err != nil {
		return e, err
	}
	offer, price, err := choose(challenge.Accepts, b.most, b.network)
	if err != nil {
		return e, err
	}
	b.print("402 Payment Required")
	b.print("  for      %s", challenge.Resource.URL)
	b.print("           %s", challenge.Resource.Description)
	b.print("  price    %s USD (%s units of token %s on %s)", x402.Dollars(price), offer.Amount, offer.Asset,
		offer.Network)
	b.print("  payee    %s", offer.PayTo)
	chainID, isChain := x402.ChainID(offer.Network)
	name, hasName := offer.Extra["name"].(string)
	version, hasVersion := offer.Extra["version"].(string)
	if !isChain || !hasName || !hasVersion {
		return e, ErrNoOffer
	}
	if b.approve != nil {
		if err := b.approve(ctx, offer); err != nil {
			return e, err
		}
	}
	window := time.Duration(min(max(offer.MaxTimeoutSeconds, 1), maxWindowSeconds)) * time.Second
	domain := eip3009.Domain{Name: name, Version: version, ChainID: chainID, Token: common.HexToAddress(offer.Asset)}
	err = b.limits.locked(func() error {
		earlier, err := b.journal.find(e)
		if err != nil {
			return err
		}
		if earlier != nil {
			return errFaster
		}
		if b.answered != nil { // asked after the journal, which is dropped after the answer is saved
			if there, err := b.answered(); err != nil || there {
				return errors.Join(err, errAnswered)
			}
		}
		if err := b.limits.pin(b.url, offer.Network, offer.PayTo); err != nil {
			return err
		}
		a := eip3009.Authorization{
			From: common.HexToAddress(e.Payer), To: common.HexToAddress(offer.PayTo), Value: price,
			ValidAfter: big.NewInt(0), ValidBefore: big.NewInt(time.Now().Add(window).Unix()),
		}
		_, _ = rand.Read(a.Nonce[:]) // never fails
		e.Offer, e.Nonce, e.ValidBefore = offer, a.Nonce.Hex(), time.Unix(a.ValidBefore.Int64(), 0).UTC()
		if !flight.Pin(ctx) {
			return context.Cause(ctx)
		}
		if err := b.limits.count(signed{Payer: e.Payer, Question: e.name(), Nonce: e.Nonce, ValidBefore: e.ValidBefore},
			price); err != nil {
			flight.Unpin(ctx)
			return err
		}
		signature, err := a.Sign(domain, b.key)
		if err != nil {
			return err
		}
		// The challenge's resource and extensions are echoed, as official clients do.
		e.Header, err = x402.Encode(x402.Payload{
			X402Version: x402.V2, Resource: &challenge.Resource, Accepted: offer, Extensions: challenge.Extensions,
			Payload: x402.ExactPayload{Signature: signature, Authorization: a.Wire()},
		})
		if err != nil {
			return err
		}
		return b.journal.keep(e)
	})
	if err != nil {
		return e, err
	}
	b.print("Signed the payment (EIP-3009) as %s, good until %s", e.Payer, e.ValidBefore.Format(time.RFC3339))
	return e, nil
}

// challenge sends a request without a payment, and returns the seller's offers. A seller that is not ready is
// asked again for b.maxWait, but at most for readyWait.
func (b *buyer) challenge(ctx context.Context, url, body string) (x402.PaymentRequired, error) {
	for end := time.Now().Add(min(b.maxWait, readyWait)); ; {
		unpaid, err := b.exchange(ctx, http.MethodPost, url, []byte(body), "")
		if err != nil {
			return x402.PaymentRequired{}, err
		}
		c, err := unpaid.challenge()
		pause := retryafter.Read(unpaid.header, time.Now(), usualPause, longestPause)
		if unpaid.status != http.StatusServiceUnavailable || unpaid.refusal().Reason != notReady ||
			time.Now().Add(pause).After(end) {
			return c, err
		}
		b.print("Not yet: %v. It is asked again in %s.", err, pause)
		select {
		case <-ctx.Done():
			return c, err
		case <-time.After(pause):
		}
	}
}

// pay sends a payment until the seller answers for good, or pay gives up: after maxWait, or sooner where no money
// has moved. open means that it was sent before and its outcome is not known. The error is errUndecided if money
// may have moved when pay gives up, or if a final answer is not that of a verifier, and a *denied or a *refusal if
// the seller refuses for good. If pay gives up and no money has moved, it is the error of the last try, a *refusal
// where the seller has answered. The payment stays in the journal.
func (b *buyer) pay(ctx context.Context, e entry, open bool) (purchase, error) {
	p := purchase{entry: e}
	end := time.Now().Add(b.maxWait)
	told := end // a refusal that moved no money is returned if the next try would be after this
	if b.isBrief {
		told = time.Now().Add(min(b.maxWait, finalWithin))
	}
	ctx, cancel := context.WithTimeout(ctx, b.maxWait)
	defer cancel()
	for {
		got, err := b.exchange(ctx, http.MethodPost, e.URL, []byte(e.Body), e.Header)
		if err == nil && got.status == http.StatusOK {
			p.answer, p.settled = got.body, got.settled()
			if p.isReused() {
				b.print("Repeated: an earlier payment has bought this answer. Its transaction: %s",
					p.settled.Transaction)
				b.print("By the seller's word the payment signed now is not spent. It could be until %s, so it "+
					"counts against the cap of a day.", e.ValidBefore.Format(time.RFC3339))
			} else {
				b.print("Paid. Transaction of the payment: %s", p.settled.Transaction)
			}
			return p, nil
		}
		pause := usualPause
		if err != nil {
			open = open || !isUnsent(err)
		} else {
			refused := got.refusal()
			refused.until = e.lastMoment()
			if !refused.mayChange() {
				return p, refused.after(open)
			}
			open = open || !refused.isUncharged()
			pause, err = retryafter.Read(got.header, time.Now(), usualPause, longestPause), refused
			if !open && (time.Now().Add(pause).After(told) || refused.Status == http.StatusUnprocessableEntity &&
				(b.isBrief || time.Now().Add(pause).After(e.ValidBefore))) {
				return p, err // the payment would end before the evidence is there
			}
		}
		if time.Now().Add(pause).After(end) {
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

// isUnsent reports whether err shows that the request reached no server.
func isUnsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// check checks a paid answer against the key document, its proof and the question. Only the fetch of the key
// document needs a network.
func (b *buyer) check(ctx context.Context, q question, answer []byte) (receipt.Result, error) {
	keys, err := b.keys(ctx)
	if errors.Is(err, receipt.ErrMalformed) {
		return receipt.Result{}, fmt.Errorf("%w: %w", errReceipt, err)
	}
	if err != nil {
		return receipt.Result{}, errors.Join(errUndecided, err)
	}
	result, err := q.verify(answer, keys)
	if err == nil {
		err = q.checkAnswers(result.Receipt, keys.Chain)
	}
	if err != nil {
		return receipt.Result{}, fmt.Errorf("%w: %w", errReceipt, err)
	}
	return result, nil
}

// keys returns the key document of keysFile, or the seller's own if keysFile is "".
func (b *buyer) keys(ctx context.Context) (receipt.KeyDocument, error) {
	if b.keysFile != "" {
		text, err := os.ReadFile(b.keysFile)
		if err != nil {
			return receipt.KeyDocument{}, fmt.Errorf("read the key document: %w", err)
		}
		return parseKeys(text)
	}
	got, err := b.get(ctx, b.url+keyPath)
	if err != nil {
		return receipt.KeyDocument{}, fmt.Errorf("fetch the key document: %w", err)
	}
	return parseKeys(got.body)
}

func parseKeys(text []byte) (receipt.KeyDocument, error) {
	keys, err := receipt.ParseKeyDocument(text)
	if err != nil {
		return keys, fmt.Errorf("key document: %w", err)
	}
	return keys, nil
}

package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/x402"
)

// price is what one verification costs, in the token's atomic units.
const price = 10_000

// buyers buy, and try not to pay.
type buyers struct {
	*journal
	*world
	url      string
	requests []string // about finalized transactions
	once     bool     // whether a payer pays once for a question
	observed bool     // whether another, who sees the payments, carries some out before they are sent

	mu        sync.Mutex
	begun     int // purchases that have an account of their own
	purchases []*purchase
	last      *purchase         // the one that is begun when nothing fails any more
	finalized map[string]uint64 // by nonce, the finalized block when the answer had come
}

// kind is what must become of a purchase.
type kind string

const (
	honest       kind = "a purchase"                     // is served for one payment, or costs nothing
	unverifiable kind = "what cannot be verified"        // its expectation does not hold: never served, nor charged by the verifier
	invalid      kind = "a bad payment"                  // terms, time or signature are wrong: the same
	reverting    kind = "a payment that reverts"         // its transfer reverts: the same
	forged       kind = "a copy with a broken signature" // of a good payment: never served
)

// purchase is one thing that a buyer wants once, and all payments for it: the later
// ones because the earlier ones were refused.
type purchase struct {
	kind     kind
	request  string
	version  int
	by       *client.Account
	from     net.Addr // nil for any
	payments []*payment
	ended    string // why it needs no further call
}

// Why a purchase needs no further call.
const (
	sold    = "sold"
	limited = "facilitator_limit"           // no free settlement is left
	capped  = "too_many_failed_settlements" // by those of its own payer
	moved   = "its payment buys something else"
)

// Further reasons of the verifier.
const (
	used = "payment_already_used" // by another request
	// inProgress: another call works on the payment, or it waits for others of its
	// payer.
	inProgress = "payment_in_progress"
	pending    = "settlement_pending"
)

// payment is one signed payment and the answers to it so far.
type payment struct {
	client.Payment
	offer         x402.PaymentRequired
	authorization x402.Authorization
	// carriedOut is whether another carried it out on the chain before it was sent.
	carriedOut bool
	answers    []client.Answer
}

// delivered returns the first whole answer of 200, if there was one.
func (p *payment) delivered() (a client.Answer, sold bool) {
	if at := slices.IndexFunc(p.answers, client.Answer.OK); at >= 0 {
		return p.answers[at], true
	}
	return a, false
}

// last is the last answer, empty when there was none.
func (p *payment) last() (a client.Answer) {
	if n := len(p.answers); n > 0 {
		a = p.answers[n-1]
	}
	return a
}

func newBuyers(j *journal, w *world, transactions []string) *buyers {
	b := &buyers{
		journal: j, world: w, url: w.PublicURL + "/v1/verify/chain-transaction", finalized: map[string]uint64{},
	}
	for _, tx := range transactions {
		b.requests = append(b.requests, requestFor(tx),
			fmt.Sprintf(`{"transactionHash":%q,"expectations":{"status":"success","minConfirmations":1}}`, tx))
	}
	return b
}

func requestFor(tx string) string { return fmt.Sprintf(`{"transactionHash":%q}`, tx) }

// want notes a purchase, of an honest account and an address that no other buyer
// has as long as there are enough.
func (b *buyers) want(k kind, request string) *purchase {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &purchase{kind: k, request: request, version: x402.V2}
	if k != forged && k != reverting {
		b.begun++
		p.by, p.from = b.honest[b.begun%len(b.honest)], address(1, b.begun)
	}
	b.purchases = append(b.purchases, p)
	return p
}

// of returns the purchases of some kinds.
func (b *buyers) of(kinds ...kind) []*purchase {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.purchases), func(p *purchase) bool { return !slices.Contains(kinds, p.kind) })
}

// offer reads the price until it is answered, or ctx ends; why is limited when
// nothing is sold any more.
func (b *buyers) offer(ctx context.Context, request string) (c x402.PaymentRequired, ok bool, why string) {
	for ctx.Err() == nil {
		answer := client.Pay(ctx, waiting(nil), b.url, request, nil)
		if answer.Status == http.StatusOK {
			b.violated("served unpaid: a call without a payment was answered 200")
		}
		if c, err := answer.Challenge(); err == nil {
			return c, true, ""
		}
		if answer.Reason() == limited {
			return c, false, limited
		}
		pause(ctx, 100*time.Millisecond)
	}
	return c, false, ""
}

// sign signs a payment for a purchase, which change may make invalid, and notes it
// before it is sent. It returns nil when nothing is offered.
func (b *buyers) sign(ctx context.Context, p *purchase, change func(*x402.PaymentRequired, *x402.Authorization)) *payment {
	offer, ok, why := b.offer(ctx, p.request)
	if !ok {
		p.ended = why
		return nil
	}
	authorization, err := p.by.Authorize(offer)
	if err == nil && change != nil {
		change(&offer, &authorization)
	}
	next := &payment{}
	if err == nil {
		next.offer, next.authorization = offer, authorization
		next.Payment, err = p.by.Sign(offer, p.version, authorization)
	}
	if err != nil {
		b.violated("an offer cannot be paid: %v", err)
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p.payments = append(p.payments, next)
	return next
}

// carryOut now and then has another carry out a payment before it is sent, and returns when
// it is on the chain, also when ctx ends meanwhile.
func (b *buyers) carryOut(ctx context.Context, p *purchase, next *payment, random *rand.Rand) {
	if !b.observed || random.IntN(2) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	// What this answers does not count: it may give up while the chain is frozen.
	_, _ = b.chain.carryOut(ctx, p.by, next.offer, next.authorization)
	err := until(ctx, 20*time.Second, func(ctx context.Context) error {
		used, err := b.chain.isUsed(ctx, p.by.Address, next.Nonce)
		if err == nil && !used {
			err = errors.New("it is not on the chain")
		}
		return err
	})
	if err != nil {
		b.violated("another cannot carry out payment %s: %v", next.Nonce, err)
		return
	}
	next.carriedOut = true
	b.note("another has carried out %s (%s)", next.Nonce[:10], p.kind)
	b.count("payments carried out by another before the check", 1)
}

// send sends a payment and notes the answer. With an answer of 200 it also notes
// how far the chain is final, by the chain itself.
func (b *buyers) send(ctx context.Context, c *http.Client, p *purchase, next *payment) client.Answer {
	answer := client.Pay(ctx, c, b.url, p.request, &next.Payment)
	b.note("pay %s (%s): %s", next.Nonce[:10], p.kind, answer)
	sold := answer.OK() && p.kind != forged
	var final uint64
	var err error
	if sold {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		final, err = b.chain.head(ctx, "finalized")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	next.answers = append(next.answers, answer)
	if _, known := b.finalized[next.Nonce]; sold && !known && err == nil {
		b.finalized[next.Nonce] = final
	}
	return answer
}

// buyUntil buys one thing after the other until ctx ends.
func (b *buyers) buyUntil(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		switch random.IntN(8) {
		case 0:
			b.payInvalidly(ctx, random)
		case 1:
			b.expectTooMuch(ctx, random)
		default:
			request := b.any(random)
			if !b.once || random.IntN(3) > 0 {
				b.buy(ctx, request, random)
			} else {
				b.askAgain(ctx, request, random)
			}
		}
		pause(ctx, time.Duration(random.IntN(150))*time.Millisecond)
	}
}

// buyBeforeFinality buys answers about transactions that are not final yet, until
// ctx ends. They are sold as soon as the chain calls them final, and not before.
func (b *buyers) buyBeforeFinality(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		if tx, err := b.chain.newest(ctx); err == nil && tx != "" {
			b.buy(ctx, requestFor(tx), random)
			b.count("purchases before finality", 1)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func (b *buyers) any(random *rand.Rand) string { return b.requests[random.IntN(len(b.requests))] }

// buy buys one thing. The first call may be several at once, cut at any stage;
// then the buyer tries again as one should: with the same payment, and with a new
// one only when the old one was refused.
func (b *buyers) buy(ctx context.Context, request string, random *rand.Rand) *purchase {
	p := b.want(honest, request)
	b.pursue(ctx, p, random)
	return p
}

// askAgain has one payer buy one thing two to four times at once, with payments of their
// own, as a client does that signs anew.
func (b *buyers) askAgain(ctx context.Context, request string, random *rand.Rand) {
	first := b.want(honest, request)
	var all sync.WaitGroup
	for i := range 2 + random.IntN(3) {
		p := first
		if i > 0 {
			p = b.want(honest, request)
			p.by, p.from = first.by, first.from
		}
		own, wait := source(random.Uint64(), 3), time.Duration(random.IntN(400))*time.Millisecond
		all.Go(func() { pause(ctx, wait); b.pursue(ctx, p, own) })
	}
	all.Wait()
	b.count("questions asked again", 1)
}

// pursue buys what a purchase wants.
func (b *buyers) pursue(ctx context.Context, p *purchase, random *rand.Rand) {
	if random.IntN(4) == 0 {
		p.version = x402.V1
	}
	for ctx.Err() == nil && len(p.payments) < 4 && p.ended == "" {
		next := b.sign(ctx, p, nil)
		if next == nil {
			return
		}
		b.count("payments signed", 1)
		b.carryOut(ctx, p, next, random)
		b.sendAtOnce(ctx, p, next, random)
		b.retry(ctx, p, next)
		if answer, sold := next.delivered(); sold && !isRepeated(answer) && random.IntN(3) == 0 {
			b.reuse(ctx, p, next, random)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// isRepeated reports whether an answer was bought by an earlier payment, so that this one
// is still unspent.
func isRepeated(answer client.Answer) bool {
	for _, name := range []string{x402.HeaderPaymentResponse, x402.HeaderPaymentResponseV1} {
		var settled x402.SettleResponse
		if x402.Decode(answer.Header.Get(name), &settled) == nil && bytes.Contains(settled.Extra, []byte(`"repeated":true`)) {
			return true
		}
	}
	return false
}

// sendAtOnce sends a payment one to three times at once, and hangs up on some of
// them, beside forged copies.
func (b *buyers) sendAtOnce(ctx context.Context, p *purchase, next *payment, random *rand.Rand) {
	var all sync.WaitGroup
	for range 1 + max(0, random.IntN(5)-2) {
		c := waiting(p.from)
		if random.IntN(2) == 0 {
			c = cutting(random, p.from)
			b.count("calls cut by the buyer", 1)
		}
		all.Go(func() { b.send(ctx, c, p, next) })
	}
	for range max(0, random.IntN(5)-2) {
		changed, err := forge(next.Payment, random)
		if err != nil {
			b.violated("a payment cannot be copied: %v", err)
			continue
		}
		copied := b.want(forged, p.request)
		copied.payments = []*payment{{Payment: changed}}
		b.count("copies with a broken signature", 1)
		all.Go(func() { b.send(ctx, waiting(address(3, 1)), copied, copied.payments[0]) })
	}
	all.Wait()
}

// forge returns a payment that differs in one digit of its signature, as a stranger
// may send who has seen the payment.
func forge(p client.Payment, random *rand.Rand) (client.Payment, error) {
	text, err := base64.StdEncoding.DecodeString(p.Value)
	if err != nil {
		return p, err
	}
	var sent struct {
		Payload struct{ Signature string } `json:"payload"`
	}
	if err := json.Unmarshal(text, &sent); err != nil {
		return p, err
	}
	digits := []byte(sent.Payload.Signature)
	at := 2 + random.IntN(64) // in r
	digits[at] = "123456789abcdef0"[strings.IndexByte("0123456789abcdef", digits[at])]
	p.Value = base64.StdEncoding.EncodeToString(bytes.Replace(text, []byte(sent.Payload.Signature), digits, 1))
	return p, nil
}

// retry sends the payment again until it is known what became of it. One that another has
// carried out buys its answer also when no settlement is left, at the latest when its window
// is over.
func (b *buyers) retry(ctx context.Context, p *purchase, next *payment) {
	for ctx.Err() == nil {
		answer := b.send(ctx, waiting(p.from), p, next)
		switch {
		case answer.OK():
			p.ended = sold
			return
		case answer.Err == nil && answer.Status == http.StatusPaymentRequired:
			return // refused, and nothing charged
		case !next.carriedOut && (answer.Reason() == limited || answer.Reason() == capped):
			p.ended = answer.Reason()
			return
		}
		pause(ctx, 150*time.Millisecond)
	}
}

// reuse sends a payment that was spent with another request.
func (b *buyers) reuse(ctx context.Context, p *purchase, next *payment, random *rand.Rand) {
	other := b.any(random)
	if other == p.request {
		return
	}
	answer := client.Pay(ctx, waiting(nil), b.url, other, &next.Payment)
	b.count("payments used again", 1)
	if answer.Status == http.StatusOK {
		b.violated("served unpaid: payment %s bought a second request", next.Nonce)
	}
}

// expectTooMuch expects what does not hold, which the verifier never charges.
func (b *buyers) expectTooMuch(ctx context.Context, random *rand.Rand) {
	request := b.requests[random.IntN(len(b.requests)/2)*2]
	p := b.want(unverifiable, request[:len(request)-1]+`,"expectations":{"minConfirmations":100000}}`)
	if next := b.sign(ctx, p, nil); next != nil {
		b.carryOut(ctx, p, next, random)
		b.send(ctx, waiting(p.from), p, next)
		b.buyWithIt(ctx, p)
	}
}

// buyWithIt buys, with a payment that another has carried out for what cannot be verified,
// the answer to the same question without the expectation: the money buys one answer.
func (b *buyers) buyWithIt(ctx context.Context, p *purchase) {
	first := p.payments[0]
	for first.carriedOut && p.ended == "" && ctx.Err() == nil {
		if first.last().Status != http.StatusUnprocessableEntity { // it may still be under way
			pause(ctx, 150*time.Millisecond)
			b.send(ctx, waiting(p.from), p, first)
			continue
		}
		question, _, _ := strings.Cut(p.request, `,"expectations"`)
		next := b.want(honest, question+"}")
		b.mu.Lock()
		p.ended = moved
		next.by, next.from = p.by, p.from
		next.payments = []*payment{{Payment: first.Payment, carriedOut: true}}
		b.mu.Unlock()
		b.retry(ctx, next, next.payments[0])
		b.count("payments carried out by another that bought something else", 1)
	}
}

// payInvalidly pays with wrong terms, at a wrong time or with a wrong signature.
func (b *buyers) payInvalidly(ctx context.Context, random *rand.Rand) {
	p := b.want(invalid, b.any(random))
	next := b.sign(ctx, p, func(offer *x402.PaymentRequired, a *x402.Authorization) {
		now := time.Now().Unix()
		switch random.IntN(6) {
		case 0:
			a.ValidBefore = strconv.FormatInt(now-int64(1+random.IntN(600)), 10) // a clock that is slow
		case 1:
			a.ValidAfter, a.ValidBefore = strconv.FormatInt(now+1800, 10), strconv.FormatInt(now+3600, 10) // one that is fast
		case 2:
			a.Value = strconv.Itoa(price - 1)
		case 3:
			a.To = p.by.Address
		case 4:
			a.From = strings.ToLower(bystander)
		default:
			offer.Accepts[0].Extra = map[string]any{"name": "Another token", "version": "1"}
		}
	})
	if next != nil {
		b.count("bad payments", 1)
		b.send(ctx, waiting(p.from), p, next)
	}
}

// revert pays, until ctx ends, with payments that every simulation confirms and
// whose transfers revert. All come from one address.
func (b *buyers) revert(ctx context.Context, by *client.Account, random *rand.Rand) {
	for ctx.Err() == nil {
		p := b.want(reverting, b.any(random))
		p.by, p.from = by, address(2, 1)
		next := b.sign(ctx, p, nil)
		if next == nil {
			return
		}
		for range 1 + random.IntN(2) { // once more, to have it settled once more
			// It waits for the answer although the run's faults may end meanwhile, so
			// that no answer means a fault.
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*time.Second)
			answer := b.send(within, waiting(p.from), p, next)
			cancel()
			if answer.Reason() == capped {
				b.count("payments answered 429", 1)
				pause(ctx, 200*time.Millisecond)
			}
		}
		b.count("payments that revert", 1)
	}
}

// retryAll has every buyer try again who may have paid, and then buys one more
// thing, which must work.
func (b *buyers) retryAll(ctx context.Context, seed uint64) {
	var all sync.WaitGroup
	for _, p := range b.of(reverting) {
		if len(p.payments) > 0 {
			all.Go(func() { b.send(ctx, waiting(p.from), p, p.payments[0]) })
		}
	}
	for _, p := range b.of(honest) {
		if p.ended == "" && len(p.payments) > 0 {
			all.Go(func() { b.retry(ctx, p, p.payments[len(p.payments)-1]) })
		}
	}
	for _, p := range b.of(unverifiable) {
		if len(p.payments) > 0 {
			all.Go(func() { b.buyWithIt(ctx, p) })
		}
	}
	all.Wait()
	b.observed = false
	b.last = b.buy(ctx, b.requests[0], source(seed, 300))
}

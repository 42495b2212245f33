package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/test/internal/buyer"
	"github.com/pforte/pforte/pkg/x402"
)

// price is what one verification costs, in the token's atomic units.
const price = 10_000

// shop is everybody who buys, and tries not to pay.
type shop struct {
	*journal
	url       string
	chain     chain
	accounts  accounts
	questions []string
	notebook  buyer.Notebook

	mu        sync.Mutex
	visitors  int
	hopeful   []*purchase       // that must be sold, or cost nothing
	last      *purchase         // the one that is begun when all is well again
	frauds    []*buyer.Spend    // that must never be sold
	broken    []*buyer.Spend    // copies of good payments with a signature that is not theirs: never sold
	reverting []*purchase       // whose transfers revert: never sold
	doomed    []*buyer.Purchase // whose expectation does not hold: never sold
	final     map[string]uint64 // by nonce, the finalized block when the answer had come
}

// Why a purchase needs no further call.
const (
	sold    = "sold"
	limited = "limit"                       // no free settlement is left
	capped  = "too_many_failed_settlements" // by those of its own payer
	used    = "payment_already_used"        // said of a payment for another request
	// inProgress is said of a payment that another call is at work on, or that waits
	// for others of its payer.
	inProgress = "payment_in_progress"
	pending    = "settlement_pending"
)

// purchase is what one buyer wants once.
type purchase struct {
	*buyer.Purchase
	version int
	by      *buyer.Buyer
	from    net.Addr // nil for any
	ended   string   // why it needs no further call
}

func newShop(j *journal, w *world, transactions []string) *shop {
	s := &shop{
		journal: j, url: w.PublicURL + "/v1/verify/chain-transaction", chain: w.chain, accounts: w.accounts,
		final: map[string]uint64{},
	}
	for _, tx := range transactions {
		s.questions = append(
			s.questions,
			fmt.Sprintf(`{"transactionHash":%q}`, tx),
			fmt.Sprintf(`{"transactionHash":%q,"expectations":{"status":"success","minConfirmations":1}}`, tx),
		)
	}
	return s
}

// newcomer returns an account and an address that no other buyer has, as long as
// there are enough.
func (s *shop) newcomer() (*buyer.Buyer, net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visitors++
	return s.accounts.honest[s.visitors%len(s.accounts.honest)], address(1, s.visitors)
}

// visit lets one buyer buy one thing after the other until ctx ends.
func (s *shop) visit(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		question := s.questions[random.IntN(len(s.questions))]
		switch random.IntN(8) {
		case 0:
			s.cheat(ctx, question, random)
		case 1:
			s.mistake(ctx, random)
		default:
			s.buy(ctx, question, random)
		}
		pause(ctx, time.Duration(random.IntN(150))*time.Millisecond)
	}
}

// offer asks for the price until it is told, or ctx ends; why is limited when
// nothing is sold any more.
func (s *shop) offer(ctx context.Context, question string) (c x402.PaymentRequired, ok bool, why string) {
	for ctx.Err() == nil {
		a := buyer.Send(ctx, patient(nil), s.url, question, nil)
		s.neverFree(a)
		if c, err := a.Challenge(); err == nil {
			return c, true, ""
		}
		if reason(a) == "facilitator_limit" {
			return c, false, limited
		}
		pause(ctx, 100*time.Millisecond)
	}
	return c, false, ""
}

func (s *shop) neverFree(a buyer.Answer) {
	if a.Status == http.StatusOK {
		s.violated("served unpaid: a call without a payment was answered 200")
	}
}

// buy buys one thing. The first call may be several at once, cut at any stage;
// then the buyer comes back as one should: with the same payment, and with a new
// one only when the shop has refused the old one.
func (s *shop) buy(ctx context.Context, question string, random *rand.Rand) *purchase {
	p := &purchase{Purchase: s.notebook.Add(s.url, question), version: x402.V2}
	p.by, p.from = s.newcomer()
	if random.IntN(4) == 0 {
		p.version = x402.V1
	}
	s.mu.Lock()
	s.hopeful = append(s.hopeful, p)
	s.mu.Unlock()
	for ctx.Err() == nil && len(p.Spends) < 4 && p.ended == "" {
		if !s.spend(ctx, p) {
			return p
		}
		spend := p.Spends[len(p.Spends)-1]
		s.rush(ctx, p, spend, random)
		s.comeBack(ctx, p, spend)
		if _, sold := spend.Sold(); sold && random.IntN(3) == 0 {
			s.reuse(ctx, spend, question, random)
		}
		pause(ctx, 50*time.Millisecond)
	}
	return p
}

// hurry buys answers about transactions that are not final yet, until ctx ends.
// They are sold as soon as the chain calls them final, and not before.
func (s *shop) hurry(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		if tx, err := s.chain.newest(ctx); err == nil && tx != "" {
			s.buy(ctx, fmt.Sprintf(`{"transactionHash":%q}`, tx), random)
			s.count("purchases before finality", 1)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// spend signs a payment for a purchase and notes it before anybody sees it.
func (s *shop) spend(ctx context.Context, p *purchase) bool {
	c, ok, why := s.offer(ctx, p.Question)
	if !ok {
		p.ended = why
		return false
	}
	payment, err := p.by.Sign(c, p.version, time.Now())
	if err != nil {
		s.violated("an offer cannot be paid: %v", err)
		return false
	}
	p.Spends = append(p.Spends, &buyer.Spend{Payment: payment})
	s.count("payments signed", 1)
	return true
}

// rush sends a payment one to three times at once, and hangs up on some of them.
func (s *shop) rush(ctx context.Context, p *purchase, spend *buyer.Spend, random *rand.Rand) {
	var all sync.WaitGroup
	for range 1 + max(0, random.IntN(5)-2) {
		client := patient(p.from)
		if random.IntN(2) == 0 {
			client = hasty(random, p.from)
			s.count("calls cut by the buyer", 1)
		}
		all.Go(func() { s.send(ctx, client, p.Question, spend) })
	}
	for range max(0, random.IntN(5)-2) {
		s.forge(ctx, &all, p.Question, spend, random)
	}
	all.Wait()
}

// forge sends a copy of a good payment with a signature that is not its own, as
// a stranger may who has seen the payment.
func (s *shop) forge(ctx context.Context, all *sync.WaitGroup, question string, spend *buyer.Spend, random *rand.Rand) {
	payment, err := forged(spend.Payment, random)
	if err != nil {
		s.violated("a payment cannot be copied: %v", err)
		return
	}
	copied := &buyer.Spend{Payment: payment}
	s.mu.Lock()
	s.broken = append(s.broken, copied)
	s.mu.Unlock()
	s.count("copies with a broken signature", 1)
	all.Go(func() {
		copied.Add(buyer.Send(ctx, patient(address(3, 1)), s.url, question, &copied.Payment))
		s.note("copy %s: %s", copied.Nonce[:10], describe(copied.Last()))
	})
}

// forged returns a payment that differs in one digit of its signature.
func forged(p buyer.Payment, random *rand.Rand) (buyer.Payment, error) {
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

func (s *shop) send(ctx context.Context, client *http.Client, question string, spend *buyer.Spend) buyer.Answer {
	a := buyer.Send(ctx, client, s.url, question, &spend.Payment)
	spend.Add(a)
	s.note("pay %s: %s", spend.Nonce[:10], describe(a))
	if a.Err == nil && a.Status == http.StatusOK {
		s.noteFinal(ctx, spend.Nonce)
	}
	return a
}

// noteFinal notes how far the chain is final now that an answer has come, by the
// chain's own word.
func (s *shop) noteFinal(ctx context.Context, nonce string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	final, err := s.chain.head(ctx, "finalized")
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.final[nonce]; !known && err == nil {
		s.final[nonce] = final
	}
}

// comeBack sends the payment again until it is known what became of it.
func (s *shop) comeBack(ctx context.Context, p *purchase, spend *buyer.Spend) {
	for ctx.Err() == nil {
		a := s.send(ctx, patient(p.from), p.Question, spend)
		switch {
		case a.Err == nil && a.Status == http.StatusOK:
			p.ended = sold
			return
		case a.Err == nil && a.Status == http.StatusPaymentRequired:
			return // refused, and nothing charged: that is what it says
		case reason(a) == "facilitator_limit":
			p.ended = limited
			return
		case reason(a) == capped:
			p.ended = capped
			return
		}
		pause(ctx, 150*time.Millisecond)
	}
}

// reuse sends a payment that was spent with another question.
func (s *shop) reuse(ctx context.Context, spend *buyer.Spend, question string, random *rand.Rand) {
	other := s.questions[random.IntN(len(s.questions))]
	if other == question {
		return
	}
	a := buyer.Send(ctx, patient(nil), s.url, other, &spend.Payment)
	s.count("payments used again", 1)
	if a.Status == http.StatusOK {
		s.violated("served unpaid: payment %s bought a second question", spend.Nonce)
	}
}

// mistake expects what does not hold, which is never charged.
func (s *shop) mistake(ctx context.Context, random *rand.Rand) {
	question := s.questions[random.IntN(len(s.questions)/2)*2]
	question = question[:len(question)-1] + `,"expectations":{"minConfirmations":100000}}`
	p := s.notebook.Add(s.url, question)
	c, ok, _ := s.offer(ctx, question)
	if !ok {
		return
	}
	by, from := s.newcomer()
	payment, err := by.Sign(c, x402.V2, time.Now())
	if err != nil {
		return
	}
	spend := &buyer.Spend{Payment: payment}
	p.Spends = append(p.Spends, spend)
	s.mu.Lock()
	s.doomed = append(s.doomed, p)
	s.mu.Unlock()
	s.send(ctx, patient(from), question, spend)
}

// cheat pays with what is no good payment, by its terms, its time or its
// signature.
func (s *shop) cheat(ctx context.Context, question string, random *rand.Rand) {
	c, ok, _ := s.offer(ctx, question)
	if !ok {
		return
	}
	by, from := s.newcomer()
	now := time.Now().Unix()
	a := x402.Authorization{
		From: by.Address, To: c.Accepts[0].PayTo, Value: c.Accepts[0].Amount, ValidAfter: "0",
		ValidBefore: strconv.FormatInt(now+60, 10), Nonce: fmt.Sprintf("0x%016x%048x", random.Uint64(), now),
	}
	kind := random.IntN(6)
	switch kind {
	case 0:
		a.ValidBefore = strconv.FormatInt(now-int64(1+random.IntN(600)), 10) // a clock that is slow
	case 1:
		a.ValidAfter, a.ValidBefore = strconv.FormatInt(now+1800, 10), strconv.FormatInt(now+3600, 10) // one that is fast
	case 2:
		a.Value = strconv.Itoa(price - 1)
	case 3:
		a.To = by.Address
	case 4:
		a.From = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8" // another account
	default:
		c.Accepts[0].Extra = map[string]any{"name": "Another token", "version": "1"}
	}
	payment, err := by.Seal(c, x402.V2, a)
	if err != nil {
		s.violated("seal: %v", err)
		return
	}
	spend := &buyer.Spend{Payment: payment}
	s.mu.Lock()
	s.frauds = append(s.frauds, spend)
	s.mu.Unlock()
	s.count("bad payments", 1)
	s.send(ctx, patient(from), question, spend)
}

// revert pays, until ctx ends, with payments of which every simulation says that
// they are good, and whose transfers revert. All come from one address.
func (s *shop) revert(ctx context.Context, by *buyer.Buyer, random *rand.Rand) {
	for ctx.Err() == nil {
		question := s.questions[random.IntN(len(s.questions))]
		c, ok, _ := s.offer(ctx, question)
		if !ok {
			return
		}
		payment, err := by.Sign(c, x402.V2, time.Now())
		if err != nil {
			s.violated("an offer cannot be paid: %v", err)
			return
		}
		spend := &buyer.Spend{Payment: payment}
		s.mu.Lock()
		s.reverting = append(s.reverting, &purchase{by: by, Purchase: &buyer.Purchase{Question: question, Spends: []*buyer.Spend{spend}}})
		s.mu.Unlock()
		for range 1 + random.IntN(2) { // once more, to have it settled once more
			if a := s.sendToEnd(ctx, question, spend); reason(a) == capped {
				s.count("payments answered 429", 1)
				pause(ctx, 200*time.Millisecond)
			}
		}
		s.count("payments that revert", 1)
	}
}

// sendToEnd waits for the answer although the run's faults may end meanwhile, so
// that no answer means a fault.
func (s *shop) sendToEnd(ctx context.Context, question string, spend *buyer.Spend) buyer.Answer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*time.Second)
	defer cancel()
	return s.send(ctx, patient(address(2, 1)), question, spend)
}

// settleUp lets everybody come back for what he may have paid for.
func (s *shop) settleUp(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range s.reverting {
		all.Go(func() { s.send(ctx, patient(address(2, 1)), p.Question, p.Spends[0]) })
	}
	for _, p := range s.hopeful {
		if p.ended == "" && len(p.Spends) > 0 {
			all.Go(func() { s.comeBack(ctx, p, p.Spends[len(p.Spends)-1]) })
		}
	}
	all.Wait()
}

// reason is the shop's own word for why it does not sell.
func reason(a buyer.Answer) string {
	var body struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(a.Body, &body) != nil {
		return ""
	}
	return body.Reason
}

func describe(a buyer.Answer) string {
	if a.Err != nil {
		return "no answer: " + a.Err.Error()
	}
	return strconv.Itoa(a.Status) + " " + reason(a)
}

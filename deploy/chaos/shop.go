package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/internal/buyer"
	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/pkg/x402"
)

// price is what one verification costs, in the token's atomic units.
const price = 10_000

// shop is everybody who buys, and tries not to pay.
type shop struct {
	*journal
	url       string
	buyer     *buyer.Buyer
	questions []string
	notebook  buyer.Notebook

	mu      sync.Mutex
	hopeful []*purchase       // that must be sold, or cost nothing
	frauds  []*buyer.Spend    // that must never be sold
	doomed  []*buyer.Purchase // whose expectation does not hold: never sold
}

// purchase is what one buyer wants once.
type purchase struct {
	*buyer.Purchase
	version int
	ended   string // why it needs no further call
}

func newShop(j *journal, url string, transactions []string) (*shop, error) {
	b, err := buyer.New(layout.PayerKey)
	s := &shop{journal: j, url: url + "/v1/verify/chain-transaction", buyer: b}
	for _, tx := range transactions {
		s.questions = append(
			s.questions,
			fmt.Sprintf(`{"transactionHash":%q}`, tx),
			fmt.Sprintf(`{"transactionHash":%q,"expectations":{"status":"success","minConfirmations":1}}`, tx),
		)
	}
	return s, err
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

// offer asks for the price until it is told, or ctx ends.
func (s *shop) offer(ctx context.Context, question string) (c x402.PaymentRequired, ok bool) {
	for ctx.Err() == nil {
		a := buyer.Send(ctx, patient(), s.url, question, nil)
		s.neverFree(a)
		if c, err := a.Challenge(); err == nil {
			return c, true
		}
		if reason(a) == "facilitator_limit" {
			return c, false
		}
		pause(ctx, 100*time.Millisecond)
	}
	return c, false
}

func (s *shop) neverFree(a buyer.Answer) {
	if a.Status == http.StatusOK {
		s.violated("served unpaid: a call without a payment was answered 200")
	}
}

// buy buys one thing. The first call may be several at once, cut at any stage;
// then the buyer comes back as one should: with the same payment, and with a new
// one only when the shop has refused the old one.
func (s *shop) buy(ctx context.Context, question string, random *rand.Rand) {
	p := &purchase{Purchase: s.notebook.Add(s.url, question), version: x402.V2}
	if random.IntN(4) == 0 {
		p.version = x402.V1
	}
	s.mu.Lock()
	s.hopeful = append(s.hopeful, p)
	s.mu.Unlock()
	for ctx.Err() == nil && len(p.Spends) < 4 && p.ended == "" {
		if !s.spend(ctx, p) {
			return
		}
		spend := p.Spends[len(p.Spends)-1]
		s.rush(ctx, p, spend, random)
		s.comeBack(ctx, p, spend)
		if _, sold := spend.Sold(); sold && random.IntN(3) == 0 {
			s.reuse(ctx, spend, question, random)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// spend signs a payment for a purchase and notes it before anybody sees it.
func (s *shop) spend(ctx context.Context, p *purchase) bool {
	c, ok := s.offer(ctx, p.Question)
	if !ok {
		return false
	}
	payment, err := s.buyer.Sign(c, p.version, time.Now())
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
		client := patient()
		if random.IntN(2) == 0 {
			client = hasty(random)
			s.count("calls cut by the buyer", 1)
		}
		all.Go(func() { s.send(ctx, client, p.Question, spend) })
	}
	all.Wait()
}

func (s *shop) send(ctx context.Context, client *http.Client, question string, spend *buyer.Spend) buyer.Answer {
	a := buyer.Send(ctx, client, s.url, question, &spend.Payment)
	spend.Add(a)
	s.note("pay %s: %s", spend.Nonce[:10], describe(a))
	return a
}

// comeBack sends the payment again until it is known what became of it.
func (s *shop) comeBack(ctx context.Context, p *purchase, spend *buyer.Spend) {
	for ctx.Err() == nil {
		a := s.send(ctx, patient(), p.Question, spend)
		switch {
		case a.Err == nil && a.Status == http.StatusOK:
			p.ended = "sold"
			return
		case a.Err == nil && a.Status == http.StatusPaymentRequired:
			return // refused, and nothing charged: that is what it says
		case reason(a) == "facilitator_limit":
			p.ended = "limit"
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
	a := buyer.Send(ctx, patient(), s.url, other, &spend.Payment)
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
	c, ok := s.offer(ctx, question)
	if !ok {
		return
	}
	payment, err := s.buyer.Sign(c, x402.V2, time.Now())
	if err != nil {
		return
	}
	spend := &buyer.Spend{Payment: payment}
	p.Spends = append(p.Spends, spend)
	s.mu.Lock()
	s.doomed = append(s.doomed, p)
	s.mu.Unlock()
	s.send(ctx, patient(), question, spend)
}

// cheat pays with what is no good payment, by its terms, its time or its
// signature.
func (s *shop) cheat(ctx context.Context, question string, random *rand.Rand) {
	c, ok := s.offer(ctx, question)
	if !ok {
		return
	}
	now := time.Now().Unix()
	a := x402.Authorization{
		From: s.buyer.Address, To: c.Accepts[0].PayTo, Value: c.Accepts[0].Amount, ValidAfter: "0",
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
		a.To = s.buyer.Address
	case 4:
		a.From = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8" // another account
	default:
		c.Accepts[0].Extra = map[string]any{"name": "Another token", "version": "1"}
	}
	payment, err := s.buyer.Seal(c, x402.V2, a)
	if err != nil {
		s.violated("seal: %v", err)
		return
	}
	spend := &buyer.Spend{Payment: payment}
	s.mu.Lock()
	s.frauds = append(s.frauds, spend)
	s.mu.Unlock()
	s.count("bad payments", 1)
	s.send(ctx, patient(), question, spend)
}

// settleUp lets everybody come back for what he may have paid for.
func (s *shop) settleUp(ctx context.Context) {
	var all sync.WaitGroup
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

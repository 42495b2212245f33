package buyer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// maxAnswer bounds an answer that is read, in bytes.
const maxAnswer = 8 << 20

// Answer is what came back for one request. Err says that none, or not all of
// it, came.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error
}

// Challenge reads the offer in a 402 answer.
func (a Answer) Challenge() (c x402.PaymentRequired, err error) {
	if a.Err != nil || a.Status != http.StatusPaymentRequired {
		return c, fmt.Errorf("no offer but %d %.200s: %w", a.Status, a.Body, a.Err)
	}
	return c, x402.Decode(a.Header.Get(x402.HeaderPaymentRequired), &c)
}

// Send posts a question, with a payment unless it is nil.
func Send(ctx context.Context, client *http.Client, url, question string, p *Payment) Answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(question))
	if err != nil {
		return Answer{Err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	if p != nil {
		request.Header.Set(p.Header, p.Value)
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body, Err: err}
}

// Buy asks for the price, signs a payment of version 2, and sends it once. The
// error says that it came to no payment; how that ended is in the answer.
func (b *Buyer) Buy(ctx context.Context, client *http.Client, url, question string) (Payment, Answer, error) {
	offer, err := Send(ctx, client, url, question, nil).Challenge()
	if err != nil {
		return Payment{}, Answer{}, err
	}
	p, err := b.Sign(offer, x402.V2, time.Now())
	if err != nil {
		return Payment{}, Answer{}, err
	}
	return p, Send(ctx, client, url, question, &p), nil
}

// Purchase is one thing that a buyer wants once, and all he did for it.
type Purchase struct {
	URL, Question string
	// Spends are the payments signed for it, the later ones because the seller
	// refused the earlier ones.
	Spends []*Spend
}

// Spend is one signed payment and the answers to it.
type Spend struct {
	Payment
	mu      sync.Mutex
	answers []Answer
}

// Add notes an answer.
func (s *Spend) Add(a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
}

// Answers are the answers so far.
func (s *Spend) Answers() []Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Answer(nil), s.answers...)
}

// Sold gives the first whole answer of 200, if there was one.
func (s *Spend) Sold() (Answer, bool) {
	for _, a := range s.Answers() {
		if a.Err == nil && a.Status == http.StatusOK {
			return a, true
		}
	}
	return Answer{}, false
}

// Last is the last answer, empty when there was none.
func (s *Spend) Last() Answer {
	all := s.Answers()
	if len(all) == 0 {
		return Answer{}
	}
	return all[len(all)-1]
}

// Notebook is a buyer's list of purchases.
type Notebook struct {
	mu        sync.Mutex
	purchases []*Purchase
}

// Add begins a purchase.
func (n *Notebook) Add(url, question string) *Purchase {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &Purchase{URL: url, Question: question}
	n.purchases = append(n.purchases, p)
	return p
}

// Purchases are all purchases; they are not to be read before those who buy
// have ended.
func (n *Notebook) Purchases() []*Purchase {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*Purchase(nil), n.purchases...)
}

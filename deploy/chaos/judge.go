package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/pforte/pforte/deploy/internal/buyer"
	"github.com/pforte/pforte/pkg/receipt"
)

// account holds the buyers' notes against the chain.
type account struct {
	*shop
	transfers map[string]int // by nonce
	strange   int
	limit     int
}

// judge says everything about the money of a run that does not hold.
func (a account) judge() {
	total, delivered := a.strange, 0
	if a.strange > 0 {
		a.violated("%d transfers to the payee are nobody's", a.strange)
	}
	for _, n := range a.transfers {
		total += n
	}
	for _, p := range a.hopeful {
		delivered += a.judgePurchase(p)
	}
	for _, p := range a.doomed {
		a.neverSold("what cannot be verified", p.Spends)
	}
	a.neverSold("a bad payment", a.frauds)
	a.nobodys()
	if total > a.limit {
		a.violated("%d settlements passed the limit of %d", total, a.limit)
	}
	if total != delivered {
		a.violated("%d transfers and %d answers", total, delivered)
	}
	a.count("transfers", total)
	a.count("answers delivered", delivered)
}

// judgePurchase judges one purchase and gives how many answers it delivered.
func (a account) judgePurchase(p *purchase) (delivered int) {
	charged := 0
	for _, spend := range p.Spends {
		n := a.transfers[spend.Nonce]
		charged += n
		answer, sold := spend.Sold()
		switch {
		case sold && n == 0:
			a.violated("served unpaid: payment %s was answered 200 and moved nothing", spend.Nonce)
		case !sold && n > 0:
			a.violated("paid and not served: payment %s moved money, and its buyer's last answer is %s", spend.Nonce, describe(spend.Last()))
		case n > 1:
			a.violated("payment %s moved money %d times", spend.Nonce, n)
		}
		if sold {
			delivered++
			a.same(spend, answer)
		}
	}
	if charged > 1 {
		a.violated("charged twice: a purchase paid %d times", charged)
	}
	if charged == 0 && p.ended == "" && len(p.Spends) > 0 && a.stuck(p) {
		a.violated("not sold when all was well again: the last answer is %s", describe(p.Spends[len(p.Spends)-1].Last()))
	}
	return delivered
}

// stuck tells whether a purchase ended without a clear word: a shop that is well
// sells, or says why it does not.
func (a account) stuck(p *purchase) bool {
	last := p.Spends[len(p.Spends)-1].Last()
	return last.Err != nil || last.Status != http.StatusPaymentRequired
}

// same insists that all answers to one payment are the same bytes.
func (a account) same(spend *buyer.Spend, first buyer.Answer) {
	for _, again := range spend.Answers() {
		if again.Err == nil && again.Status == http.StatusOK && !bytes.Equal(first.Body, again.Body) {
			a.violated("payment %s bought two different answers", spend.Nonce)
		}
	}
}

func (a account) neverSold(what string, spends []*buyer.Spend) {
	for _, spend := range spends {
		if _, sold := spend.Sold(); sold {
			a.violated("%s was served: %s", what, spend.Nonce)
		}
		if a.transfers[spend.Nonce] > 0 {
			a.violated("%s was charged: %s", what, spend.Nonce)
		}
	}
}

// nobodys finds transfers by authorizations that no buyer noted.
func (a account) nobodys() {
	known := map[string]bool{}
	for _, p := range a.notebook.Purchases() {
		for _, spend := range p.Spends {
			known[spend.Nonce] = true
		}
	}
	for nonce := range a.transfers {
		if !known[nonce] {
			a.violated("money moved by an authorization that no purchase of this run signed: %s", nonce)
		}
	}
}

// receipts are all receipts of a campaign, by the question.
type receipts map[string][]byte

// judge checks every receipt offline, against the chain, and against earlier
// receipts for the same question.
func (s *shop) judge(ctx context.Context, c chain, keys receipt.KeyDocument, earlier receipts) {
	for _, p := range s.hopeful {
		for _, spend := range p.Spends {
			answer, sold := spend.Sold()
			if !sold {
				continue
			}
			if err := truthful(ctx, c, keys, p.Question, answer.Body); err != nil {
				s.violated("a wrong receipt for %s: %v", p.Question, err)
			}
			if before, known := earlier[p.Question]; known && !bytes.Equal(before, answer.Body) {
				s.violated("two different receipts for %s", p.Question)
			}
			earlier[p.Question] = answer.Body
			s.count("receipts checked", 1)
		}
	}
}

// truthful checks one receipt by its proof and signature, and by asking the
// chain.
func truthful(ctx context.Context, c chain, keys receipt.KeyDocument, question string, body []byte) error {
	result, err := receipt.Verify(body, keys)
	if err != nil {
		return err
	}
	r := result.Receipt
	if len(result.Proven) == 0 || !strings.Contains(question, r.Transaction.Hash) {
		return fmt.Errorf("it proves nothing of what was asked: %s", r.Transaction.Hash)
	}
	var found struct {
		BlockHash   string `json:"blockHash"`
		BlockNumber string `json:"blockNumber"`
		Status      string `json:"status"`
		From        string `json:"from"`
		GasUsed     string `json:"gasUsed"`
	}
	if err := c.call(ctx, &found, "eth_getTransactionReceipt", r.Transaction.Hash); err != nil {
		return err
	}
	height, _ := number(found.BlockNumber)
	gas, _ := number(found.GasUsed)
	status := map[string]string{"0x1": "success", "0x0": "reverted"}[found.Status]
	says := []string{r.Block.Hash, r.Block.Number, *r.Outcome.Status, r.Transaction.From, r.Outcome.GasUsed}
	is := []string{found.BlockHash, strconv.FormatUint(height, 10), status, found.From, strconv.FormatUint(gas, 10)}
	for i := range says {
		if says[i] != is[i] {
			return fmt.Errorf("it says %v, the chain %v", says, is)
		}
	}
	return nil
}

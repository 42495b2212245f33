package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/deploy/test/internal/buyer"
	"github.com/pforte/pforte/pkg/receipt"
)

// failuresPerPayer and failuresPerAddress are how many failed settlements a
// payer, and an address, may have in a day, by the verifier's defaults.
const (
	failuresPerPayer   = 3
	failuresPerAddress = 10
)

// account holds the buyers' notes against the chain.
type account struct {
	*shop
	transfers map[string]int // by nonce
	strange   int
	failed    map[string]int // transfers that reverted, by payer
	stepped   bool           // whether the verifier's clock was turned
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
	for _, p := range a.reverting {
		a.neverSold("a payment that reverts", p.Spends)
	}
	for _, spend := range a.broken { // whose nonce is that of a good one
		if _, sold := spend.Sold(); sold {
			a.violated("a copy with a broken signature was served: %s", spend.Nonce)
		}
	}
	a.nobodys()
	failed := a.failures()
	if total+failed > a.limit {
		a.violated("%d settlements, %d of them failed, passed the limit of %d", total+failed, failed, a.limit)
	}
	a.closed(total + failed)
	if total != delivered {
		a.violated("%d transfers and %d answers", total, delivered)
	}
	a.count("transfers", total)
	a.count("answers delivered", delivered)
}

// failures judges the transfers that reverted, and returns how many there are.
// What is open does not count as failed, because the payer cannot help it, so
// that more may begin while the verifier cannot learn how they end. A clock that
// is turned makes what is under way look open, as if its owner were dead.
func (a account) failures() (total int) {
	open, allOpen := map[string]int{}, 0
	for _, p := range a.reverting {
		if a.stepped || inDoubt(p.Spends[0]) {
			open[p.by.Address] += asksPerPayment
			allOpen += asksPerPayment
		}
	}
	for payer, n := range a.failed {
		total += n
		if allowed := failuresPerPayer + open[payer]; n > allowed {
			a.violated("%d settlements of %s failed, %d are allowed", n, payer, allowed)
		}
	}
	if allowed := failuresPerAddress + allOpen; total > allowed {
		a.violated("%d settlements of one address failed, %d are allowed", total, allowed)
	}
	a.count("transfers that reverted", total)
	return total
}

// asksPerPayment is how often one payment may be brought to the facilitator, each
// time on a settlement of its own.
const asksPerPayment = 6

// closed judges the purchases that were refused because no settlement is left,
// of the month or of their payer, which must be true.
func (a account) closed(settlements int) {
	by := map[string]int{}
	for _, p := range a.hopeful {
		by[p.by.Address] += len(p.Spends)
	}
	perhaps, doubtful := a.reserved()
	held := settlements + asksPerPayment*doubtful
	for _, p := range a.hopeful {
		switch {
		case p.ended == limited && (perhaps < a.limit || p == a.last && held < a.limit):
			a.violated("the month is closed before its limit of %d: at most %d settlements were begun, %d were made", a.limit, perhaps, settlements)
		case p.ended == capped && by[p.by.Address] <= failuresPerPayer:
			a.violated("a payer of %d payments is refused for too many failed settlements", by[p.by.Address])
		}
	}
	if a.last != nil && a.last.ended != sold && a.last.ended != limited && !a.waits(a.last) {
		a.violated("nothing is sold when all is well again: %q", a.last.ended)
	}
}

// reserved returns how many settlements all payments together have taken at
// most, and how many of the payments were in doubt.
func (a account) reserved() (perhaps, doubtful int) {
	spends := slices.Clone(a.frauds)
	for _, p := range a.doomed {
		spends = append(spends, p.Spends...)
	}
	for _, p := range slices.Concat(a.hopeful, a.reverting) {
		spends = append(spends, p.Spends...)
	}
	for _, spend := range spends {
		if inDoubt(spend) {
			doubtful++
		}
	}
	return len(spends) + (asksPerPayment-1)*doubtful, doubtful
}

// waits reports whether a purchase may have to wait until its payment has ended:
// its outcome is open, and no settlement is left to ask for it once more. The
// last purchase begins only after all others.
func (a account) waits(p *purchase) bool {
	perhaps, _ := a.reserved()
	if perhaps < a.limit {
		return false
	}
	if len(p.Spends) == 0 {
		return true
	}
	answers := p.Spends[len(p.Spends)-1].Answers()
	for i := len(answers) - 1; i >= 0; i-- {
		if answers[i].Err == nil { // the others were cut when the run ended
			return reason(answers[i]) == pending
		}
	}
	return false
}

// inDoubt reports whether it was not known at some time what became of a payment,
// so that it may hold settlements for a while.
func inDoubt(spend *buyer.Spend) bool {
	for _, a := range spend.Answers() {
		switch {
		case a.Err != nil:
			return true
		case a.Status >= http.StatusInternalServerError && reason(a) != inProgress && reason(a) != "facilitator_limit":
			return true
		}
	}
	return false
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
		a.outdone(spend)
	}
	if charged > 1 {
		a.violated("charged twice: a purchase paid %d times", charged)
	}
	if charged == 0 && p.ended == "" && len(p.Spends) > 0 && a.stuck(p) && !a.waits(p) {
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

// outdone finds a good payment that a copy with another signature has used up.
func (a account) outdone(spend *buyer.Spend) {
	for _, answer := range spend.Answers() {
		if answer.Err != nil || answer.Status != http.StatusPaymentRequired {
			continue
		}
		if why := reason(answer); why == used {
			a.violated("a good payment was called used: %s", spend.Nonce)
		}
		if bytes.Contains(answer.Body, []byte("_signature")) {
			a.violated("a good payment was refused for the signature of a copy: %s", spend.Nonce)
		}
	}
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
			height, err := truthful(ctx, c, keys, p.Question, answer.Body)
			if err != nil {
				s.violated("a wrong receipt for %s: %v", p.Question, err)
			}
			s.finality(spend.Nonce, height)
			if before, known := earlier[p.Question]; known && !bytes.Equal(before, answer.Body) {
				s.violated("two different receipts for %s", p.Question)
			}
			earlier[p.Question] = answer.Body
			s.count("receipts checked", 1)
		}
	}
}

// finality insists that a block was final when the receipt about it was given.
func (s *shop) finality(nonce string, height uint64) {
	switch final, known := s.final[nonce]; {
	case known && height > final:
		s.violated("a receipt about block %d was given when block %d was final: payment %s", height, final, nonce)
	case known:
		s.count("receipts whose finality was checked", 1)
	}
}

// truthful checks one receipt by its proof and signature, and by asking the
// chain, and returns the number of its block.
func truthful(ctx context.Context, c chain, keys receipt.KeyDocument, question string, body []byte) (height uint64, err error) {
	result, err := receipt.Verify(body, keys)
	if err != nil {
		return 0, err
	}
	r := result.Receipt
	if len(result.Proven) == 0 || !strings.Contains(question, r.Transaction.Hash) {
		return 0, fmt.Errorf("it proves nothing of what was asked: %s", r.Transaction.Hash)
	}
	var found struct {
		BlockHash   string `json:"blockHash"`
		BlockNumber string `json:"blockNumber"`
		Status      string `json:"status"`
		From        string `json:"from"`
		GasUsed     string `json:"gasUsed"`
	}
	if err := c.call(ctx, &found, "eth_getTransactionReceipt", r.Transaction.Hash); err != nil {
		return 0, err
	}
	height, _ = number(found.BlockNumber)
	gas, _ := number(found.GasUsed)
	status := map[string]string{"0x1": "success", "0x0": "reverted"}[found.Status]
	says := []string{r.Block.Hash, r.Block.Number, *r.Outcome.Status, r.Transaction.From, r.Outcome.GasUsed}
	is := []string{found.BlockHash, strconv.FormatUint(height, 10), status, found.From, strconv.FormatUint(gas, 10)}
	for i := range says {
		if says[i] != is[i] {
			return height, fmt.Errorf("it says %v, the chain %v", says, is)
		}
	}
	return height, nil
}

package faults

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/receipt"
)

// failuresPerPayer and failuresPerAddress are how many failed settlements a
// payer, and an address, may have in a day, by the verifier's defaults.
const (
	failuresPerPayer   = 3
	failuresPerAddress = 10
)

// failuresOfStrangers is how many settlements of payers who have never paid may fail in a
// day, in a month of up to 150 of them, before such payers are refused.
const failuresOfStrangers = 3

// settlementsPerPayment is how often one payment may be sent to the facilitator,
// each time on a settlement of its own.
const settlementsPerPayment = 6

// audit compares the buyers' notes with the chain, since a block.
type audit struct {
	*buyers
	since      uint64
	keys       receipt.KeyDocument
	clockWrong bool // whether the verifier's clock was set wrong
	believed   bool // whether the facilitator, whose word counts, called every payment valid
	limit      int

	transfers map[string]int // by nonce
	unsigned  int
	failed    map[string]int // transfers that reverted, by payer
}

// newAudit begins the account of what moves on the chain from now on, with the keys
// that are published while nothing fails. It has buyers who buy verifications of
// what is final.
func newAudit(ctx context.Context, j *journal, w *world, limit int) (a audit, err error) {
	answer := client.Get(ctx, w.PublicURL+"/.well-known/receipt-signing-key.json")
	if err := answer.Want(http.StatusOK, nil); err != nil {
		return a, err
	}
	if a.keys, err = receipt.ParseKeyDocument(answer.Body); err != nil {
		return a, err
	}
	latest, err := w.chain.head(ctx, "latest")
	if err != nil {
		return a, err
	}
	transactions, err := w.chain.transactions(ctx)
	a.buyers, a.since, a.limit = newBuyers(j, w, transactions), latest+1, limit
	return a, err
}

// judge waits until what was sent to the chain is on it, and judges. An error means
// that the chain could not be read.
func (a audit) judge(ctx context.Context) (err error) {
	a.settler.late.Wait()
	if err := a.chain.nextBlocks(ctx, 2); err != nil {
		return err
	}
	if a.transfers, a.unsigned, err = a.chain.transfers(ctx, a.since); err != nil {
		return err
	}
	if a.failed, err = a.chain.failed(ctx, a.since); err != nil {
		return err
	}
	a.judgeMoney()
	a.judgeReceipts(ctx)
	return a.judgeLog(ctx)
}

// judgeMoney notes everything about the money that does not hold.
func (a audit) judgeMoney() {
	total, delivered, byAnother := a.unsigned, 0, 0
	if a.unsigned > 0 {
		a.violated("%d transfers to the payee are by no authorization", a.unsigned)
	}
	for _, n := range a.transfers {
		total += n
	}
	for _, p := range a.of(honest) {
		delivered += a.judgePurchase(p)
	}
	a.judgeQuestions()
	for _, p := range a.of(unverifiable, invalid, reverting, forged) {
		a.neverServed(p)
	}
	known := map[string]bool{}
	for _, p := range a.of(honest, unverifiable) {
		for _, pay := range p.payments {
			if pay.carriedOut && !known[pay.Nonce] {
				byAnother += a.transfers[pay.Nonce]
			}
			known[pay.Nonce] = true
		}
	}
	for nonce := range a.transfers {
		if !known[nonce] {
			a.violated("money moved by an authorization that no purchase of this run signed: %s", nonce)
		}
	}
	failed := a.judgeFailures()
	if made := total + failed - byAnother; made > a.limit {
		a.violated("%d settlements, %d of them failed, passed the limit of %d", made, failed, a.limit)
	}
	a.judgeRefusals(total + failed)
	if total != delivered {
		a.violated("%d transfers and %d answers", total, delivered)
	}
	a.count("transfers", total)
	a.count("answers delivered", delivered)
}

func (a audit) neverServed(p *purchase) {
	for _, pay := range p.payments {
		if _, sold := pay.delivered(); sold && (p.kind != forged || !a.believed) {
			a.violated("%s was served: %s", p.kind, pay.Nonce)
		}
		if a.transfers[pay.Nonce] > 0 && p.kind != forged && !pay.carriedOut { // a copy has the nonce of a good payment
			a.violated("%s was charged: %s", p.kind, pay.Nonce)
		}
		a.judgeCarriedOut(pay)
	}
}

// judgePurchase judges one purchase and returns how many answers it delivered.
func (a audit) judgePurchase(p *purchase) (delivered int) {
	charged := 0
	for _, pay := range p.payments {
		n := a.transfers[pay.Nonce]
		charged += n
		answer, sold := pay.delivered()
		switch {
		case sold && n == 0 && isRepeated(answer) && a.paidFor(p):
			a.count("answers of an earlier payment", 1)
			a.judgeAnswers(pay, answer)
			a.judgeCarriedOut(pay)
			continue
		case sold && n == 0:
			a.violated("served unpaid: payment %s was answered 200 and moved nothing", pay.Nonce)
		case !sold && n > 0:
			a.violated("paid and not served: payment %s moved money, and its buyer's last answer is %s", pay.Nonce, pay.last())
		case n > 1:
			a.violated("payment %s moved money %d times", pay.Nonce, n)
		}
		if sold {
			delivered++
		}
		a.judgeAnswers(pay, answer)
		a.judgeCarriedOut(pay)
	}
	if charged > 1 {
		a.violated("charged twice: a purchase paid %d times", charged)
	}
	if charged == 0 && p.ended == "" && len(p.payments) > 0 && !a.waits(p) {
		// Without faults a purchase is sold, or refused for a reason.
		if last := p.payments[len(p.payments)-1].last(); last.Err != nil || last.Status != http.StatusPaymentRequired {
			a.violated("not sold when nothing failed any more: the last answer is %s", last)
		}
	}
	return delivered
}

// judgeCarriedOut judges the answers to a payment whose money another had moved before it
// was sent: the buyer is never told to pay anew, nor that nothing was charged, also
// where the chain cannot be read.
func (a audit) judgeCarriedOut(pay *payment) {
	if !pay.carriedOut {
		return
	}
	if a.transfers[pay.Nonce] != 1 {
		a.violated("payment %s, which another carried out, moved money %d times", pay.Nonce, a.transfers[pay.Nonce])
	}
	for _, answer := range pay.answers {
		if answer.Err == nil && answer.Status == http.StatusPaymentRequired {
			a.violated("told to pay anew: payment %s had moved money, and its buyer's answer is %s", pay.Nonce, answer)
		}
		if bytes.Contains(answer.Body, []byte("nothing was charged")) {
			a.violated("told that nothing was charged: payment %s had moved money", pay.Nonce)
		}
	}
}

// paidFor reports whether the payer of a purchase has paid for what it wants.
func (a audit) paidFor(p *purchase) bool {
	all := func(*payment) bool { return true }
	return a.once && a.charges(all)[question{p.by.Address, p.request}] > 0
}

// question is what one payer wants.
type question struct{ payer, request string }

// charges counts the transfers of some payments by question.
func (a audit) charges(of func(*payment) bool) map[question]int {
	charged := map[question]int{}
	for _, p := range a.of(honest) {
		for _, pay := range p.payments {
			if of(pay) {
				charged[question{p.by.Address, p.request}] += a.transfers[pay.Nonce]
			}
		}
	}
	return charged
}

// judgeQuestions finds questions that one payer paid more than once, where once is enough.
// What another carried out is not the verifier's charge.
func (a audit) judgeQuestions() {
	for q, n := range a.charges(func(pay *payment) bool { return !pay.carriedOut }) {
		if a.once && n > 1 {
			a.violated("a question was paid %d times by %s: %s", n, q.payer, q.request)
		}
	}
}

// judgeAnswers finds answers to one payment that differ, and a good payment that is
// refused for a copy with another signature.
func (a audit) judgeAnswers(pay *payment, first client.Answer) {
	for _, answer := range pay.answers {
		switch {
		case answer.OK() && !bytes.Equal(first.Body, answer.Body):
			a.violated("payment %s bought two different answers", pay.Nonce)
		case answer.Err != nil || answer.Status != http.StatusPaymentRequired:
		case answer.Reason() == used:
			a.violated("a good payment was called used: %s", pay.Nonce)
		case bytes.Contains(answer.Body, []byte("_signature")):
			a.violated("a good payment was refused for the signature of a copy: %s", pay.Nonce)
		}
	}
}

// judgeFailures judges the transfers that reverted, and returns how many there are.
// What is open does not count as failed, because the payer cannot help it, so
// that more may begin while the verifier cannot learn how they end. A clock that
// is wrong makes what is under way look open, as if its process were dead.
func (a audit) judgeFailures() (total int) {
	open, allOpen := map[string]int{}, 0
	for _, p := range a.of(reverting) {
		if len(p.payments) > 0 && (a.clockWrong || inDoubt(p.payments[0])) {
			open[p.by.Address] += settlementsPerPayment
			allOpen += settlementsPerPayment
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

// judgeRefusals judges the purchases that were refused because no settlement is
// left, of the month or of their payer, which must be true.
func (a audit) judgeRefusals(settlements int) {
	by := map[string]int{}
	for _, p := range a.of(honest) {
		by[p.by.Address] += len(p.payments)
	}
	perhaps, doubtful := a.reserved()
	held := settlements + settlementsPerPayment*doubtful
	failed := 0
	for _, n := range a.failed {
		failed += n
	}
	for _, p := range a.of(honest) {
		switch {
		case p.ended == limited && failed >= failuresOfStrangers && !a.hasPaid(p.by):
		case p.ended == limited && (perhaps < a.limit || p == a.last && held < a.limit):
			a.violated("the month is closed before its limit of %d: at most %d settlements were begun, %d were made", a.limit, perhaps, settlements)
		case p.ended == capped && by[p.by.Address] <= failuresPerPayer:
			a.violated("a payer of %d payments is refused for too many failed settlements", by[p.by.Address])
		}
	}
	if a.last != nil && a.last.ended != sold && a.last.ended != limited && !a.waits(a.last) {
		a.violated("nothing is sold when nothing fails any more: %q", a.last.ended)
	}
}

// hasPaid reports whether a payer has paid for anything.
func (a audit) hasPaid(by *client.Account) bool {
	return slices.ContainsFunc(a.of(honest), func(p *purchase) bool {
		return p.by == by && slices.ContainsFunc(p.payments, func(pay *payment) bool { return a.transfers[pay.Nonce] > 0 })
	})
}

// reserved returns how many settlements all payments together have taken at
// most, and how many of the payments were in doubt.
func (a audit) reserved() (perhaps, doubtful int) {
	for _, p := range a.of(honest, unverifiable, invalid, reverting) {
		for _, pay := range p.payments {
			perhaps++
			if inDoubt(pay) {
				doubtful++
			}
		}
	}
	return perhaps + (settlementsPerPayment-1)*doubtful, doubtful
}

// waits reports whether a purchase may have to wait until its payment has ended:
// its outcome is open, and no settlement is left for one more try. The last purchase
// begins only after all others.
func (a audit) waits(p *purchase) bool {
	perhaps, _ := a.reserved()
	if perhaps < a.limit {
		return false
	}
	if len(p.payments) == 0 {
		return true
	}
	for _, answer := range slices.Backward(p.payments[len(p.payments)-1].answers) {
		if answer.Err == nil { // the others were cut when the run ended
			return answer.Reason() == pending
		}
	}
	return false
}

// inDoubt reports whether it was not known at some time what became of a payment,
// so that it may hold settlements for a while.
func inDoubt(pay *payment) bool {
	return slices.ContainsFunc(pay.answers, func(a client.Answer) bool {
		return a.Err != nil || a.Status >= http.StatusInternalServerError && a.Reason() != inProgress && a.Reason() != limited
	})
}

// judgeReceipts checks every receipt offline, against the chain, and against
// earlier receipts for the same request.
func (a audit) judgeReceipts(ctx context.Context) {
	for _, p := range a.of(honest) {
		for _, pay := range p.payments {
			answer, sold := pay.delivered()
			if !sold {
				continue
			}
			height, err := a.checkReceipt(ctx, p.request, answer.Body)
			if err != nil {
				a.violated("a wrong receipt for %s: %v", p.request, err)
			}
			a.judgeFinality(pay.Nonce, height)
			if before, known := a.earlier[p.request]; known && !bytes.Equal(before, answer.Body) {
				a.violated("two different receipts for %s", p.request)
			}
			a.earlier[p.request] = answer.Body
			a.count("receipts checked", 1)
		}
	}
}

// judgeFinality judges that a block was final when the receipt about it came.
func (b *buyers) judgeFinality(nonce string, height uint64) {
	switch final, known := b.finalized[nonce]; {
	case known && height > final:
		b.violated("a receipt about block %d was given when block %d was final: payment %s", height, final, nonce)
	case known:
		b.count("receipts whose finality was checked", 1)
	}
}

// checkReceipt checks one receipt by its proof and signature, and against the
// chain, and returns the number of its block.
func (a audit) checkReceipt(ctx context.Context, request string, body []byte) (height uint64, err error) {
	result, err := receipt.Verify(body, a.keys)
	if err != nil {
		return 0, err
	}
	r := result.Receipt
	if len(result.Proven) == 0 || !strings.Contains(request, r.Transaction.Hash) {
		return 0, fmt.Errorf("it does not prove the transaction of the request: %s", r.Transaction.Hash)
	}
	found, err := a.chain.receipt(ctx, r.Transaction.Hash)
	if err != nil {
		return 0, err
	}
	height = uint64(found.BlockNumber)
	status := map[client.Quantity]string{1: "success", 0: "reverted"}[found.Status]
	got := []string{r.Block.Hash, r.Block.Number, *r.Outcome.Status, r.Transaction.From, r.Outcome.GasUsed}
	want := []string{found.BlockHash, strconv.FormatUint(height, 10), status, found.From, strconv.FormatUint(uint64(found.GasUsed), 10)}
	if !slices.Equal(got, want) {
		return height, fmt.Errorf("got %v, the chain has %v", got, want)
	}
	return height, nil
}

package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/x402"
)

// outcome is what --json prints of a run that succeeds, except with --batch.
type outcome struct {
	URL         string          `json:"url"`
	Transaction string          `json:"transaction"`
	Verified    bool            `json:"verified"`
	KeyID       string          `json:"keyId"`
	Proven      []string        `json:"proven"`
	Attested    []string        `json:"attested"`
	Payment     outcomePayment  `json:"payment"`
	Answer      json.RawMessage `json:"answer"`
	// Finality is there with --finality.
	Finality *finality.Result `json:"finality,omitempty"`
}

type outcomePayment struct {
	USD         string `json:"usd"`
	Amount      string `json:"amount"`
	Asset       string `json:"asset"`
	Network     string `json:"network"`
	Payer       string `json:"payer"`
	PayTo       string `json:"payTo"`
	Nonce       string `json:"nonce"`
	Transaction string `json:"transaction"`
	// Resumed means that the payment was in the journal already.
	Resumed bool `json:"resumed"`
	// Reused means that the seller says that an earlier payment, that of Transaction, has bought the answer, and
	// that the payment of Nonce, of the amount in USD, is not spent.
	Reused bool `json:"repeated"`
}

// failed is what --json prints of a run that fails, unless the command line is wrong or the answer was printed before.
type failed struct {
	URL         string `json:"url"`
	Transaction string `json:"transaction"`
	Verified    bool   `json:"verified"`
	Error       string `json:"error"`
	// Reason is the seller's reason, "" when there is none.
	Reason string `json:"reason"`
	// Paid is "no", "unknown" or "yes".
	Paid string `json:"paid"`
}

func (r *run) reportFailure(err error, code int) {
	var seller *refusal
	f := failed{URL: r.options.url, Transaction: r.want.TransactionHash, Error: err.Error()}
	f.Paid = cmp.Or(map[int]string{exitUndecided: "unknown", exitReceipt: "yes", exitNotFinal: "yes"}[code], "no")
	if errors.Is(err, errFinalLater) || errors.Is(err, errUnproven) { // the answer is there
		f.Paid = "yes"
	}
	if errors.As(err, &seller) {
		f.Reason = seller.Reason
	}
	_ = json.NewEncoder(r.stdout).Encode(f) // the exit code shows it as well
}

// outcome returns the payment as --json prints it.
func (p purchase) outcome() outcomePayment {
	price, _ := priceOf(p.Offer) // it was chosen
	return outcomePayment{
		USD: x402.Dollars(price), Amount: p.Offer.Amount, Asset: p.Offer.Asset, Network: p.Offer.Network,
		Payer: p.Payer, PayTo: p.Offer.PayTo, Nonce: p.Nonce, Transaction: p.settled.Transaction, Resumed: p.resumed,
		Reused: p.isReused(),
	}
}

func (r *run) report(p purchase, result receipt.Result, final *finality.Result) error {
	if r.json {
		return json.NewEncoder(r.stdout).Encode(outcome{
			URL: p.URL, Transaction: r.want.TransactionHash, Verified: true, KeyID: result.Key.KeyID,
			Proven: fields(result.Proven), Attested: fields(result.Attested), Answer: p.answer, Finality: final,
			Payment: p.outcome(),
		})
	}
	t := result.Receipt.Transaction
	status := "unknown (before Byzantium)"
	if result.Receipt.Outcome.Status != nil {
		status = *result.Receipt.Outcome.Status
	}
	r.print("Receipt: transaction %s", t.Hash)
	r.print("  %s, in block %s of %s, %s, from %s", status, result.Receipt.Block.Number, result.Receipt.Chain.ID,
		result.Receipt.Block.Date(), t.From)
	if result.Receipt.Transfer != nil {
		r.print("  moved %s", result.Receipt.Transfer.SentenceOn(result.Receipt.Chain.ID))
	}
	r.print("  signed by %s", result.Key.KeyID)
	r.print("  proven from the block's own roots: %s", grouped(result.Proven))
	r.print("  attested by the signature only: %s", grouped(result.Attested))
	if final != nil {
		for i, sentence := range append(final.Sentences(), final.Warning(time.Now())) {
			switch {
			case i == 0:
				sentence = "final: " + sentence
			case sentence == "":
				continue
			}
			r.print("  %s", sentence)
		}
	}
	r.print("Checked offline: %s. %s.", held(result), p.paid())
	return nil
}

// paid says what was paid, without the full stop.
func (p purchase) paid() string {
	usd := p.outcome().USD
	if p.isReused() {
		return "Paid before; " + usd + " USD were signed for"
	}
	return "Paid " + usd + " USD"
}

// held returns what of receipts was checked and holds: a seller may leave the proof out.
func held(results ...receipt.Result) string {
	unproven := 0
	for _, r := range results {
		if len(r.Proven) == 0 {
			unproven++
		}
	}
	switch n := len(results); {
	case n == 1 && unproven == 0:
		return "the signature and the proof hold"
	case n == 1:
		return "the signature holds, and there is no proof"
	case unproven == 0:
		return fmt.Sprintf("the signatures and the proofs of all %d hold", n)
	default:
		return fmt.Sprintf("the signatures of all %d hold, and %d have no proof", n, unproven)
	}
}

// grouped returns the names of facts in brief, such as "block (hash, number), chain (id)".
func grouped(facts []receipt.Fact) string {
	var order []string
	members := map[string][]string{}
	for _, name := range fields(facts) {
		group, member, _ := strings.Cut(name, ".")
		if members[group] == nil {
			order = append(order, group)
		}
		members[group] = append(members[group], member)
	}
	for i, group := range order {
		order[i] = group + " (" + strings.Join(members[group], ", ") + ")"
	}
	return strings.Join(order, ", ")
}

func fields(facts []receipt.Fact) []string {
	names := make([]string, len(facts))
	for i, f := range facts {
		names[i] = f.Field
	}
	return names
}

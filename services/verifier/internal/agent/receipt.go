package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
)

const (
	keyPath = "/.well-known/receipt-signing-key.json"
	// anyChain stands in a path for the name of the verifier's first chain.
	anyChain = "chain"
)

// check fetches the key document and checks the receipt against it, against its
// proof and against the request. Only the fetch needs a network.
func (r *run) check(ctx context.Context, answer []byte) (receipt.Result, error) {
	got, err := r.exchange(ctx, http.MethodGet, strings.TrimSuffix(r.url, "/")+keyPath, nil, "")
	if err == nil && got.status != http.StatusOK {
		err = got.refusal()
	}
	if err != nil {
		return receipt.Result{}, errors.Join(errUndecided, fmt.Errorf("fetch the key document: %w", err))
	}
	keys, err := receipt.ParseKeyDocument(got.body)
	if err != nil {
		return receipt.Result{}, fmt.Errorf("%w: key document: %w", errReceipt, err)
	}
	result, err := receipt.Verify(answer, keys)
	if err != nil {
		return receipt.Result{}, fmt.Errorf("%w: %w", errReceipt, err)
	}
	if result.Receipt.Request != r.wanted() {
		return receipt.Result{}, fmt.Errorf("%w: it answers another question", errReceipt)
	}
	if err := r.checkChain(result.Receipt.Chain, keys.Chain); err != nil {
		return receipt.Result{}, fmt.Errorf("%w: %w", errReceipt, err)
	}
	return result, nil
}

// checkChain compares a receipt's chain with the one that was paid for. A
// transaction without replay protection stands on several chains under one hash,
// so that the hash alone does not identify it. A path that names no chain stands for
// the verifier's first one, which its key document has.
func (r *run) checkChain(got receipt.Chain, first string) error {
	name, named := strings.CutSuffix(path.Base(r.path), "-transaction")
	named = named && name != anyChain
	id := r.chain
	if id == "" && !named {
		id = first
	}
	const other = "it is about the chain %s (%s), and the chain %s was paid for"
	switch {
	case named && got.Name != name:
		return fmt.Errorf(other, got.Name, got.ID, name)
	case id != "" && got.ID != id:
		return fmt.Errorf(other, got.Name, got.ID, id)
	}
	return nil
}

// wanted returns the request as a receipt spells it.
func (r *run) wanted() receipt.Request {
	want := r.want
	for _, text := range []*string{&want.TransactionHash, &want.Expectations.From, &want.Expectations.To, &want.Expectations.Selector} {
		*text = strings.ToLower(*text)
	}
	return want
}

// outcome is what --json prints.
type outcome struct {
	URL         string          `json:"url"`
	Transaction string          `json:"transaction"`
	Verified    bool            `json:"verified"`
	KeyID       string          `json:"keyId"`
	Proven      []string        `json:"proven"`
	Attested    []string        `json:"attested"`
	Payment     outcomePayment  `json:"payment"`
	Answer      json.RawMessage `json:"answer"`
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
	// Resumed means that a payment of an earlier run was sent again.
	Resumed bool `json:"resumed"`
}

// failed is what --json prints when there is no receipt that holds.
type failed struct {
	URL         string `json:"url"`
	Transaction string `json:"transaction"`
	Verified    bool   `json:"verified"`
	Error       string `json:"error"`
	// Reason is the seller's, "" when there is none.
	Reason string `json:"reason"`
	// Paid is "no", "unknown" or "yes".
	Paid string `json:"paid"`
}

func (r *run) reportFailure(err error, code int) {
	var seller *refusal
	f := failed{URL: r.url, Transaction: r.want.TransactionHash, Error: err.Error()}
	f.Paid = cmp.Or(map[int]string{exitUndecided: "unknown", exitReceipt: "yes"}[code], "no")
	if errors.As(err, &seller) {
		f.Reason = seller.Reason
	}
	_ = json.NewEncoder(r.stdout).Encode(f) // the exit code shows it as well
}

func (r *run) report(p purchase, result receipt.Result) error {
	price, _ := priceOf(p.Offer) // it was chosen
	if r.json {
		return json.NewEncoder(r.stdout).Encode(outcome{
			URL: p.URL, Transaction: r.want.TransactionHash, Verified: true, KeyID: result.Key.KeyID,
			Proven: fields(result.Proven), Attested: fields(result.Attested), Answer: p.answer,
			Payment: outcomePayment{
				USD: x402.Dollars(price), Amount: p.Offer.Amount, Asset: p.Offer.Asset, Network: p.Offer.Network, Payer: p.Payer,
				PayTo: p.Offer.PayTo, Nonce: p.Nonce, Transaction: p.settled.Transaction, Resumed: p.resumed,
			},
		})
	}
	t := result.Receipt.Transaction
	status := "unknown (before Byzantium)"
	if result.Receipt.Outcome.Status != nil {
		status = *result.Receipt.Outcome.Status
	}
	r.print("Receipt: transaction %s", t.Hash)
	r.print("  %s, in block %s of %s, from %s", status, result.Receipt.Block.Number, result.Receipt.Chain.ID, t.From)
	r.print("  signed by %s", result.Key.KeyID)
	r.print("  proven from the block's own roots: %s", grouped(result.Proven))
	r.print("  attested by the signature only: %s", grouped(result.Attested))
	r.print("Checked offline: the signature and the proof hold. Paid %s USD.", x402.Dollars(price))
	return nil
}

// grouped names facts briefly: "block (hash, number), chain (id)".
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

package verification

import (
	"fmt"
	"strconv"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// evidence returns what was requested and proven, in the receipt's spelling. Nothing
// of the moment (Heads) is in it.
func evidence(r Request, s chain.Snapshot) Evidence {
	expectations := r.Expectations.normalized()
	return Evidence{
		Receipt: receipt.Receipt{
			Type:    receipt.Type,
			Version: receipt.Version,
			Chain: receipt.Chain{
				ID:   fmt.Sprintf("eip155:%d", s.Chain.ID),
				Name: s.Chain.Name,
			},
			Request: receipt.Request{
				TransactionHash: r.TransactionHash.String(),
				Expectations:    expectations,
			},
			Transaction: transactionOf(s.Transaction),
			Block:       blockOf(s.Block),
			Outcome:     outcomeOf(s.Outcome),
			Finality:    receipt.Finality{Tag: receipt.TagFinalized, Met: true},
			Checks:      receipt.ChecksFor(string(s.Transaction.SenderMethod), expectations),
			Verdict:     receipt.Verdict,
		},
		Proof: proofOf(s.Proof),
	}
}

// normalized returns the expectations in the receipt's spelling.
func (e Expectations) normalized() receipt.Expectations {
	out := receipt.Expectations{Status: string(e.Status), MinConfirmations: e.MinConfirmations}
	if e.From != nil {
		out.From = e.From.String()
	}
	if e.To != nil {
		out.To = e.To.String()
	}
	if e.Selector != nil {
		out.Selector = e.Selector.String()
	}
	return out
}

func transactionOf(t chain.Transaction) receipt.Transaction {
	out := receipt.Transaction{
		Hash:            t.Hash.String(),
		Type:            fmt.Sprintf("0x%x", t.Type),
		Index:           decimal(t.Index),
		From:            t.From.String(),
		To:              spelling(t.To),
		ContractAddress: spelling(t.ContractAddress),
		Selector:        spelling(t.Selector),
		ValueWei:        t.Value.String(),
	}
	if t.Nonce != nil {
		nonce := decimal(*t.Nonce)
		out.Nonce = &nonce
	}
	return out
}

func blockOf(b chain.Block) receipt.Block {
	return receipt.Block{
		Number:           decimal(b.Number),
		Hash:             b.Hash.String(),
		ParentHash:       b.ParentHash.String(),
		Timestamp:        decimal(b.Timestamp),
		TransactionsRoot: b.TransactionsRoot.String(),
		ReceiptsRoot:     b.ReceiptsRoot.String(),
	}
}

func outcomeOf(o chain.Outcome) receipt.Outcome {
	out := receipt.Outcome{
		GasUsed:           decimal(o.GasUsed),
		CumulativeGasUsed: decimal(o.CumulativeGasUsed),
		Logs:              strconv.Itoa(o.Logs),
	}
	if o.Status != chain.StatusUnknown {
		status := string(o.Status)
		out.Status = &status
	}
	return out
}

func proofOf(p chain.Proof) receipt.Proof {
	return receipt.Proof{
		HeaderRLP:   p.HeaderRLP,
		Index:       decimal(p.Index),
		Transaction: hexes(p.Transaction),
		Receipt:     hexes(p.Receipt),
	}
}

func hexes(nodes [][]byte) []receipt.Hex {
	out := make([]receipt.Hex, len(nodes))
	for i, node := range nodes {
		out[i] = node
	}
	return out
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

package verification

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Reader reads transactions of one chain.
type Reader interface {
	// Read returns the proven snapshot of a finalized transaction. Every error holds a
	// *chain.Fault (errors.As), also when ctx ends.
	Read(ctx context.Context, transaction chain.Hash) (chain.Snapshot, error)
}

// Verifier creates evidence about the transactions of one chain.
type Verifier struct {
	Reader Reader
}

// Question is a request that was read: a Request or a TransferRequest.
type Question interface {
	// Canonical returns the question in one spelling: the same bytes whatever the letter case,
	// order and white space of its body. No two kinds of question have equal bytes.
	Canonical() []byte
	verify(context.Context, Verifier) (Evidence, error)
}

func (r Request) verify(ctx context.Context, v Verifier) (Evidence, error) { return v.Verify(ctx, r) }

// Evidence is what a verification yields: the unsigned receipt, and the proof
// that stands beside it.
type Evidence struct {
	Receipt receipt.Receipt
	Proof   receipt.Proof
}

// Verify reads the transaction, evaluates it and returns the evidence that everything
// holds. The same request about the same chain has the same evidence, whatever the
// replica, the nodes and the heads. The evidence is checked as a buyer will check it,
// by pkg/receipt, which shares no code with the reader: what the proof does not show
// is not signed.
//
// Every error holds a *chain.Fault (errors.As), of package chain or of this
// package; some hold when to retry (chain.RetryAfter), or a *MismatchError with what
// was evaluated.
func (v Verifier) Verify(ctx context.Context, r Request) (Evidence, error) {
	snapshot, err := v.Reader.Read(ctx, r.hash)
	if err != nil {
		return Evidence{}, err
	}
	if err := evaluate(r.Expectations, snapshot); err != nil {
		return Evidence{}, err
	}
	e := evidence(r, snapshot)
	if _, _, err := receipt.VerifyProof(e.Receipt, e.Proof); err != nil {
		return Evidence{}, fmt.Errorf("%w: %w", chain.ErrIntegrity, err)
	}
	return e, nil
}

// evidence returns what was requested and proven, in the receipt's spelling. Nothing
// of the moment (Heads) is in it.
func evidence(r Request, s chain.Snapshot) Evidence {
	t, b, o := s.Transaction, s.Block, s.Outcome
	e := Evidence{
		Receipt: receipt.Receipt{
			Type:    receipt.Type,
			Version: receipt.Version,
			Chain:   receipt.Chain{ID: fmt.Sprintf("eip155:%d", s.Chain.ID), Name: s.Chain.Name},
			Request: r.Request,
			Transaction: receipt.Transaction{
				Hash:            t.Hash.String(),
				Type:            fmt.Sprintf("0x%x", t.Type),
				Index:           decimal(t.Index),
				From:            t.From.String(),
				To:              spelling(t.To),
				ContractAddress: spelling(t.ContractAddress),
				Selector:        spelling(t.Selector),
				ValueWei:        t.Value.String(),
			},
			Block: receipt.Block{
				Number:           decimal(b.Number),
				Hash:             b.Hash.String(),
				ParentHash:       b.ParentHash.String(),
				Timestamp:        decimal(b.Timestamp),
				TransactionsRoot: b.TransactionsRoot.String(),
				ReceiptsRoot:     b.ReceiptsRoot.String(),
			},
			Outcome: receipt.Outcome{
				Status:            status(o),
				GasUsed:           decimal(o.GasUsed),
				CumulativeGasUsed: decimal(o.CumulativeGasUsed),
				Logs:              strconv.Itoa(o.Logs),
			},
			Finality: receipt.Finality{Tag: receipt.TagFinalized, Met: true},
			Checks:   receipt.ChecksFor(string(t.SenderMethod), r.Expectations),
			Verdict:  receipt.Verdict,
		},
		Proof: receipt.Proof{
			HeaderRLP:   s.Proof.HeaderRLP,
			Index:       decimal(s.Proof.Index),
			Transaction: hexes(s.Proof.Transaction),
			Receipt:     hexes(s.Proof.Receipt),
		},
	}
	if t.Nonce != nil {
		e.Receipt.Transaction.Nonce = new(decimal(*t.Nonce))
	}
	return e
}

func hexes(nodes [][]byte) []receipt.Hex {
	out := make([]receipt.Hex, len(nodes))
	for i, node := range nodes {
		out[i] = node
	}
	return out
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

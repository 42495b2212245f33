package verification

import (
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Judged is the judgement alone, for snapshots that tests make up.
func Judged(r Request, s chain.Snapshot) (Evidence, error) {
	if err := evaluate(r.Expectations, s); err != nil {
		return Evidence{}, err
	}
	return evidence(r, s), nil
}

// JudgedTransfer is the judgement of a transfer alone.
func JudgedTransfer(r TransferRequest, s chain.Snapshot, events []chain.Event) (receipt.ProvenTransfer, error) {
	return evaluateTransfer(r, s, events)
}

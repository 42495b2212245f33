package verification

import "github.com/pforte/pforte/services/verifier/internal/chain"

// Judged is the judgement alone, for snapshots that tests make up.
func Judged(r Request, s chain.Snapshot) (Evidence, error) {
	if err := evaluate(r.Expectations, s); err != nil {
		return Evidence{}, err
	}
	return evidence(r, s), nil
}

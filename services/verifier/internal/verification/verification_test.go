package verification_test

import (
	"errors"
	"math/big"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// TestEvidence_WithoutAProofIsNone: should a reader ever return something
// that is not what the block holds, nothing of it is signed.
func TestEvidence_WithoutAProofIsNone(t *testing.T) {
	node := chaintest.NewNode(t, chaintest.Load(t, chaintest.BaseBlock))
	request, err := verification.ParseRequest([]byte(expecting("")))
	if err != nil {
		t.Fatal(err)
	}
	heads := chain.Heads{Latest: 2_000_100, Finalized: 2_000_000}
	hash, _ := chain.ParseHash(request.TransactionHash)
	honest, err := read(t, chain.Config{Name: "base", ID: 8453, RPCURLs: []string{node.URL}}).Read(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	nonce := uint64(19)
	for name, lie := range map[string]func(*chain.Snapshot){
		"":          func(*chain.Snapshot) {},
		"sender":    func(s *chain.Snapshot) { s.Transaction.From[0]++ },
		"no nonce":  func(s *chain.Snapshot) { s.Transaction.Nonce = nil },
		"nonce":     func(s *chain.Snapshot) { s.Transaction.Nonce = &nonce },
		"value":     func(s *chain.Snapshot) { s.Transaction.Value = big.NewInt(1) },
		"method":    func(s *chain.Snapshot) { s.Transaction.SenderMethod = chain.SenderInPreimage },
		"status":    func(s *chain.Snapshot) { s.Outcome.Status = chain.StatusReverted },
		"logs":      func(s *chain.Snapshot) { s.Outcome.Logs-- },
		"timestamp": func(s *chain.Snapshot) { s.Block.Timestamp++ },
		"block":     func(s *chain.Snapshot) { s.Block.Hash[31]++ },
		"proof":     func(s *chain.Snapshot) { s.Proof.Receipt = s.Proof.Transaction },
		"no proof":  func(s *chain.Snapshot) { s.Proof = chain.Proof{} },
	} {
		s := honest
		lie(&s)
		reader := newReader(chain.Identity{Name: "base", ID: 8453}, heads)
		reader.Add(s)
		_, err := verification.Verifier{Reader: reader}.Verify(t.Context(), request)
		if name == "" && err != nil || name != "" && !errors.Is(err, chain.ErrIntegrity) {
			t.Errorf("%q: %v", name, err)
		}
	}
	reader := newReader(chain.Identity{Name: "base", ID: 10}, heads)
	reader.Add(honest)
	if _, err := (verification.Verifier{Reader: reader}).Verify(t.Context(), request); !errors.Is(err, chain.ErrIntegrity) {
		t.Errorf("another chain: %v", err)
	}
}

package receipt_test

import (
	"testing"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
)

// FuzzDecodeEncodings checks that whatever is given is decoded or refused, and that what
// is decoded makes sense.
func FuzzDecodeEncodings(f *testing.F) {
	for _, block := range allBlocks(f) {
		f.Add(block.Header)
		for i, raw := range block.RawTransactions {
			if len(raw) < 1000 && i < 5 {
				f.Add(raw)
				f.Add(block.RawReceipts[i])
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if tx, err := evm.DecodeTransaction(raw); err == nil {
			if tx.Value == nil || tx.To == nil && tx.Selector != nil {
				t.Errorf("%+v", tx)
			}
		}
		if tr, err := evm.DecodeReceipt(raw); err == nil && tr.DepositNonce != nil && tr.Type != 0x7e {
			t.Errorf("%+v", tr)
		}
		if h, err := evm.DecodeHeader(raw); err == nil && h.Hash != evm.Keccak256(raw) {
			t.Errorf("%+v", h)
		}
	})
}

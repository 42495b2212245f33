package devnet_test

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// payerSends makes the payer send calls, one after the other, and waits for the
// last one. A call without a recipient deploys a contract.
func (n *network) payerSends(t *testing.T, calls ...types.DynamicFeeTx) {
	t.Helper()
	key, err := crypto.HexToECDSA(strings.TrimPrefix(devnet.PayerKey, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	nonce, err := n.client.PendingNonceAt(t.Context(), devnet.PayerAddress)
	if err != nil {
		t.Fatal(err)
	}
	var last common.Hash
	for i, call := range calls {
		call.ChainID, call.Nonce, call.Gas = big.NewInt(chainID), nonce+uint64(i), 300_000
		call.GasTipCap, call.GasFeeCap = big.NewInt(1e9), big.NewInt(1e11)
		tx, err := types.SignNewTx(key, types.LatestSignerForChainID(call.ChainID), &call)
		if err == nil {
			err = n.client.SendTransaction(t.Context(), tx)
		}
		if err != nil {
			t.Fatal(err)
		}
		last = tx.Hash()
	}
	for range 200 {
		receipt, err := n.client.TransactionReceipt(t.Context(), last)
		if err == nil && receipt.Status == types.ReceiptStatusSuccessful {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the payer's calls did not succeed")
}

func TestPayer_AContractWalletsPaymentSettles(t *testing.T) {
	n := start(t)
	l := openLedger(t) // for its ABI
	// Code that returns the wallet which takes every signature (ledger_test.go).
	deploy := common.FromHex("0x6d631626ba7e60e01b5f5260205ff35f52600e6012f3")
	token := devnet.TokenAddress
	nonce, err := n.client.PendingNonceAt(t.Context(), devnet.PayerAddress)
	if err != nil {
		t.Fatal(err)
	}
	wallet := crypto.CreateAddress(devnet.PayerAddress, nonce)
	n.payerSends(t, types.DynamicFeeTx{Data: deploy}, types.DynamicFeeTx{To: &token, Data: l.pack("transfer", wallet, big.NewInt(10000))})
	p := good(t)
	p.authorization.From, p.signature = wallet, "0x"+strings.Repeat("5a", 200)
	var s x402.SettleResponse
	n.post(t, "/settle", p.body(t), &s)
	if s.Success == nil || !*s.Success || s.Payer != wallet.Hex() {
		t.Errorf("%+v", s)
	}
}

func TestPayer_ANonceSpentBeforeIsRefused(t *testing.T) {
	n := start(t)
	l := openLedger(t) // for its ABI
	p := good(t)
	body := p.body(t)
	a := p.authorization
	signature, err := eip3009.Signature(p.signature)
	if err != nil {
		t.Fatal(err)
	}
	token := devnet.TokenAddress
	n.payerSends(t, types.DynamicFeeTx{
		To: &token, Data: l.pack(transferBy, a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce, signature),
	})
	var s x402.SettleResponse
	n.post(t, "/settle", body, &s)
	if s.Success == nil || *s.Success || s.ErrorReason != x402.ReasonNonceAlreadyUsed || s.Transaction != "" {
		t.Errorf("%+v", s)
	}
}

package devnet_test

import (
	"crypto/ecdsa"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient/simulated"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

var (
	// A contract wallet that calls every signature good, and one that calls
	// none so: return(0x1626ba7e << 224), return(0).
	yesWallet = common.HexToAddress("0x0000000000000000000000000000000000001271")
	noWallet  = common.HexToAddress("0x0000000000000000000000000000000000001272")
	someone   = common.HexToAddress("0x000000000000000000000000000000000000b0b5")
)

// ledger is the token on a chain that adds a block when a test calls for it.
type ledger struct {
	*testing.T
	backend *simulated.Backend
	client  simulated.Client
	abi     abi.ABI
	key     *ecdsa.PrivateKey
	nonce   uint64
}

func openLedger(t *testing.T) *ledger {
	t.Helper()
	alloc, contract, err := devnet.Genesis()
	if err != nil {
		t.Fatal(err)
	}
	alloc[yesWallet] = types.Account{Balance: new(big.Int), Code: common.FromHex("0x631626ba7e60e01b5f5260205ff3")}
	alloc[noWallet] = types.Account{Balance: new(big.Int), Code: common.FromHex("0x60205ff3")}
	backend := simulated.NewBackend(alloc)
	t.Cleanup(func() { _ = backend.Close() })
	backend.Commit() // the genesis block is of 1970
	key, err := crypto.HexToECDSA(strings.TrimPrefix(devnet.PayerKey, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{T: t, backend: backend, client: backend.Client(), abi: contract, key: key}
}

// pack encodes a call; of overloaded methods the one with as many arguments.
func (l *ledger) pack(name string, args ...any) []byte {
	l.Helper()
	for _, m := range l.abi.Methods {
		if m.RawName != name || len(m.Inputs) != len(args) {
			continue
		}
		packed, err := m.Inputs.Pack(args...)
		if err != nil {
			l.Fatal(err)
		}
		return append(m.ID[:4:4], packed...)
	}
	l.Fatalf("the token has no %s of %d arguments", name, len(args))
	return nil
}

// view calls a function that returns one word.
func (l *ledger) view(name string, args ...any) *big.Int {
	l.Helper()
	token := devnet.TokenAddress
	word, err := l.client.CallContract(l.Context(), ethereum.CallMsg{To: &token, Data: l.pack(name, args...)}, nil)
	if err != nil {
		l.Fatal(err)
	}
	return new(big.Int).SetBytes(word)
}

// reverts fails the test unless a call by the payer reverts with these words.
func (l *ledger) reverts(want, name string, args ...any) {
	l.Helper()
	token := devnet.TokenAddress
	_, err := l.client.CallContract(l.Context(), ethereum.CallMsg{From: devnet.PayerAddress, To: &token, Data: l.pack(name, args...)}, nil)
	var reverted rpc.DataError
	if !errors.As(err, &reverted) || !strings.Contains(err.Error(), want) {
		l.Errorf("%s: %v, want %q", name, err, want)
	}
}

// send makes the payer call the token, and returns the names of the events.
func (l *ledger) send(name string, args ...any) string {
	l.Helper()
	token := devnet.TokenAddress
	chainID, err := l.client.ChainID(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	tx, err := types.SignNewTx(l.key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: l.nonce, To: &token, Data: l.pack(name, args...), Gas: 300_000, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(1e11),
	})
	if err == nil {
		err = l.client.SendTransaction(l.Context(), tx)
	}
	if err != nil {
		l.Fatal(err)
	}
	l.nonce++
	l.backend.Commit()
	receipt, err := l.client.TransactionReceipt(l.Context(), tx.Hash())
	if err != nil || receipt.Status != types.ReceiptStatusSuccessful {
		l.Fatalf("%s: %v, %+v", name, err, receipt)
	}
	var events []string
	for _, log := range receipt.Logs {
		event, err := l.abi.EventByID(log.Topics[0])
		if err != nil {
			l.Fatal(err)
		}
		events = append(events, event.Name)
	}
	return strings.Join(events, " ")
}

// sign signs one of the token's typed messages with go-ethereum's own EIP-712,
// and returns the signature whole: r, s, v.
func (l *ledger) sign(key *ecdsa.PrivateKey, primary string, message apitypes.TypedDataMessage) []byte {
	l.Helper()
	chainID, err := l.client.ChainID(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	fields := []apitypes.Type{
		{Name: "from", Type: "address"},
		{Name: "to", Type: "address"},
		{Name: "value", Type: "uint256"},
		{Name: "validAfter", Type: "uint256"},
		{Name: "validBefore", Type: "uint256"},
		{Name: "nonce", Type: "bytes32"},
	}
	digest, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		PrimaryType: primary, Message: message,
		Types: apitypes.Types{
			"EIP712Domain": {
				{Name: "name", Type: "string"},
				{Name: "version", Type: "string"},
				{Name: "chainId", Type: "uint256"},
				{Name: "verifyingContract", Type: "address"},
			},
			"TransferWithAuthorization": fields, "ReceiveWithAuthorization": fields,
			"CancelAuthorization": {{Name: "authorizer", Type: "address"}, {Name: "nonce", Type: "bytes32"}},
		},
		Domain: apitypes.TypedDataDomain{
			Name: "USD Coin", Version: "2", ChainId: (*math.HexOrDecimal256)(chainID), VerifyingContract: devnet.TokenAddress.Hex(),
		},
	})
	if err != nil {
		l.Fatal(err)
	}
	signature, err := crypto.Sign(digest, key)
	if err != nil {
		l.Fatal(err)
	}
	signature[64] += 27
	return signature
}

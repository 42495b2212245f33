package devnet

import (
	"bytes"
	_ "embed" // the compiled token
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// The token's EIP-712 domain, as in contract/USDCoin.sol.
const (
	TokenName    = "USD Coin"
	TokenVersion = "2"
)

// TokenAddress is where the token is: the address that USDC has on Base
// Sepolia, whose chain id the development chain has by default, so that stock
// x402 clients, which pay known tokens only, pay here unchanged.
var TokenAddress = common.HexToAddress("0x036CbD53842c5426634e7929541eC2318f3dCF7e")

//go:embed contract/USDCoin.json
var compiledToken []byte

// token is the compiled contract.
type token struct {
	abi   abi.ABI
	code  []byte
	slots map[string]uint64
	// settle is the overload of transferWithAuthorization that takes the
	// signature as bytes, of an ordinary account or a contract wallet.
	settle abi.Method
}

func readToken() (token, error) {
	var compiled struct {
		ABI              json.RawMessage   `json:"abi"`
		DeployedBytecode hexutil.Bytes     `json:"deployedBytecode"`
		Slots            map[string]uint64 `json:"slots"`
	}
	if err := json.Unmarshal(compiledToken, &compiled); err != nil {
		return token{}, fmt.Errorf("read the compiled token: %w", err)
	}
	parsed, err := abi.JSON(bytes.NewReader(compiled.ABI))
	if err != nil {
		return token{}, fmt.Errorf("read the token's ABI: %w", err)
	}
	t := token{abi: parsed, code: compiled.DeployedBytecode, slots: compiled.Slots}
	for _, m := range parsed.Methods {
		if m.RawName == "transferWithAuthorization" && len(m.Inputs) == 7 {
			t.settle = m
			return t, nil
		}
	}
	return token{}, errors.New("the token has no transferWithAuthorization that takes bytes")
}

// transfer returns the call that settles a payment.
func (t token) transfer(a eip3009.Authorization, signature []byte) ([]byte, error) {
	arguments, err := t.settle.Inputs.Pack(a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce, signature)
	if err != nil {
		return nil, fmt.Errorf("encode the transfer: %w", err)
	}
	return append(t.settle.ID[:4:4], arguments...), nil
}

// mappingSlot returns where Solidity keeps the member of a mapping: the hash of its key and the
// mapping's own slot.
func mappingSlot(key common.Address, slot uint64) common.Hash {
	return crypto.Keccak256Hash(common.LeftPadBytes(key.Bytes(), 32),
		common.BigToHash(new(big.Int).SetUint64(slot)).Bytes())
}

// Keys of the development accounts: the first ones of the public test mnemonic "test test … junk"
// of Ethereum's development chains. They are public and worth nothing anywhere else.
const (
	// PayerKey is of the account that holds ether and a million of the token.
	PayerKey = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	// facilitatorKey is of the account that holds the ether that settlements cost.
	facilitatorKey = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
)

// Addresses of the development accounts.
var (
	PayerAddress       = common.HexToAddress("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
	facilitatorAddress = common.HexToAddress("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")
	// PayeeAddress is a suggested payee; it holds nothing at first.
	PayeeAddress = common.HexToAddress("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC")
)

// alloc returns the balances of the genesis block, and in it the token, all of whose
// supply is the payer's.
func alloc(t token) types.GenesisAlloc {
	ether := new(big.Int).Mul(big.NewInt(10_000), big.NewInt(1e18))
	million := common.BigToHash(big.NewInt(1_000_000 * 1e6))
	return types.GenesisAlloc{
		PayerAddress:       {Balance: ether},
		facilitatorAddress: {Balance: ether},
		TokenAddress: {Balance: new(big.Int), Nonce: 1, Code: t.code, Storage: map[common.Hash]common.Hash{
			mappingSlot(PayerAddress, t.slots["balanceOf"]):                  million,
			common.BigToHash(new(big.Int).SetUint64(t.slots["totalSupply"])): million,
		}},
	}
}

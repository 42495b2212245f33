package devnet

import (
	_ "embed" // the compiled token
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
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
	parsed, err := abi.JSON(strings.NewReader(string(compiled.ABI)))
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

// account is the token in a genesis block, with the given balances in atomic
// units.
func (t token) account(balances map[common.Address]*big.Int) types.Account {
	storage := make(map[common.Hash]common.Hash, len(balances)+1)
	supply := new(big.Int)
	for holder, balance := range balances {
		supply.Add(supply, balance)
		storage[mappingSlot(holder, t.slots["balanceOf"])] = common.BigToHash(balance)
	}
	storage[common.BigToHash(new(big.Int).SetUint64(t.slots["totalSupply"]))] = common.BigToHash(supply)
	return types.Account{Balance: new(big.Int), Nonce: 1, Code: t.code, Storage: storage}
}

// mappingSlot is where Solidity keeps the member of a mapping: the hash of its
// key and the mapping's own slot.
func mappingSlot(key common.Address, slot uint64) common.Hash {
	return crypto.Keccak256Hash(common.LeftPadBytes(key.Bytes(), 32), common.BigToHash(new(big.Int).SetUint64(slot)).Bytes())
}

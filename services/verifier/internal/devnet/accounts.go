package devnet

import (
	"crypto/ecdsa"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// Keys of the development accounts: the first ones of the public test mnemonic
// "test test … junk" that every Ethereum development chain uses. They are public
// and worth nothing anywhere else.
const (
	// PayerKey holds ether and a million of the token.
	PayerKey = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	// facilitatorKey holds the ether that settlements cost.
	facilitatorKey = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
)

// Addresses of the development accounts.
var (
	PayerAddress       = common.HexToAddress("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
	facilitatorAddress = common.HexToAddress("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")
	// PayeeAddress is a suggested payee; it holds nothing at first.
	PayeeAddress = common.HexToAddress("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC")
)

// alloc returns the balances of the genesis block.
func alloc(t token) types.GenesisAlloc {
	ether := new(big.Int).Mul(big.NewInt(10_000), big.NewInt(1e18))
	million := new(big.Int).Mul(big.NewInt(1_000_000), big.NewInt(1e6))
	return types.GenesisAlloc{
		PayerAddress:       {Balance: ether},
		facilitatorAddress: {Balance: ether},
		TokenAddress:       t.account(map[common.Address]*big.Int{PayerAddress: million}),
	}
}

func parseKey(text string) (*ecdsa.PrivateKey, error) {
	key, err := crypto.HexToECDSA(text[len("0x"):])
	if err != nil {
		return nil, fmt.Errorf("read a development key: %w", err)
	}
	return key, nil
}

package devnet

import (
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/core/types"
)

// Genesis returns what the development chain begins with, and the token's ABI.
func Genesis() (types.GenesisAlloc, abi.ABI, error) {
	t, err := readToken()
	if err != nil {
		return nil, abi.ABI{}, err
	}
	return alloc(t), t.abi, nil
}

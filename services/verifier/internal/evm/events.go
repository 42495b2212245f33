package evm

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// logsPlace is the place of the logs in a receipt, after status or state root,
// cumulative gas and bloom.
const logsPlace = 3

var errLeaf = errors.New("not the leaf of a receipt")

// events decodes the logs of a receipt from the leaf of the receipts trie that holds it.
func events(leaf []byte) ([]chain.Event, error) {
	node, err := rlp.SplitListValues(leaf)
	if err != nil || len(node) != 2 { // path and value
		return nil, errLeaf
	}
	receipt, _, err := rlp.SplitString(node[1])
	if err != nil || len(receipt) == 0 {
		return nil, errLeaf
	}
	if receipt[0] < 0xc0 { // a type before the list
		receipt = receipt[1:]
	}
	fields, err := rlp.SplitListValues(receipt)
	if err != nil || len(fields) <= logsPlace {
		return nil, errLeaf
	}
	var out []chain.Event
	if err := rlp.DecodeBytes(fields[logsPlace], &out); err != nil {
		return nil, fmt.Errorf("logs of a receipt: %w", err)
	}
	return out, nil
}

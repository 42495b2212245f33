package evm

import (
	"fmt"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

const accountMembers = 4 // nonce, balance, storage root, code hash

// StorageAt returns what a contract's storage holds in a slot (yellow paper, section 4.1).
// account are the trie nodes from the state root to the contract's account, storage those
// from there to the slot. An absent account or slot is an error.
func StorageAt[N ~[]byte](stateRoot Hash, contract Address, slot Hash, account, storage []N) (value Hash, err error) {
	key := Keccak256(contract[:])
	raw, err := VerifyTrie(stateRoot, key[:], account)
	if err != nil {
		return Hash{}, fmt.Errorf("account: %w", err)
	}
	m, err := decodeList(raw, accountMembers)
	if err != nil {
		return Hash{}, fmt.Errorf("account: %w", err)
	}
	if len(m.Items) != accountMembers {
		return Hash{}, fmt.Errorf("account has %d members, not %d", len(m.Items), accountMembers)
	}
	var root Hash
	if m.Fixed(2, root[:]); m.Err != nil {
		return Hash{}, fmt.Errorf("account: %w", m.Err)
	}
	key = Keccak256(slot[:])
	if raw, err = VerifyTrie(root, key[:], storage); err != nil {
		return Hash{}, fmt.Errorf("storage: %w", err)
	}
	item, err := rlp.Decode(raw)
	if err != nil || item.List || len(item.Content) > len(value) {
		return Hash{}, fmt.Errorf("storage: not a word of %d bytes", len(value))
	}
	copy(value[len(value)-len(item.Content):], item.Content) // without its leading zeros
	return value, nil
}

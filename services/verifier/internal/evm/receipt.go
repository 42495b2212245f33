package evm

import (
	"fmt"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Encode returns the receipt's value in the receipts trie; kind is its transaction's type. Unless its
// bytes were set (SetRawReceipts), the bloom is computed from the logs, not taken from the node.
//
// An OP deposit's receipt ends with its nonce and version since Canyon, which is when nodes report
// a version. Regolith nodes report the nonce too, but it is not hashed; before Regolith there is
// none.
func (r *Receipt) Encode(kind byte) ([]byte, error) {
	if r.raw != nil {
		return r.raw, nil
	}
	outcome, err := r.postStateOrStatus()
	if err != nil {
		return nil, err
	}
	fields := []any{outcome, r.CumulativeGasUsed, r.bloom(), r.Logs}
	if r.canyonDeposit(kind) {
		fields = append(fields, r.DepositNonce, r.DepositReceiptVersion)
	}
	return encode(kind, fields), nil
}

// canyonDeposit reports whether the receipt commits to the deposit's nonce.
func (r *Receipt) canyonDeposit(kind byte) bool {
	return kind == opDepositType && r.DepositReceiptVersion != nil
}

func (r *Receipt) postStateOrStatus() ([]byte, error) {
	switch {
	case r.status() != chain.StatusUnknown:
		return r.Status, nil
	case r.Status == nil && len(r.Root) == 32:
		return r.Root, nil
	default:
		return nil, fmt.Errorf("receipt has neither status nor state root: %w", chain.ErrInconsistent)
	}
}

// status returns how the execution ended; unknown where the receipt does not say, as before
// Byzantium.
func (r *Receipt) status() chain.Status {
	switch {
	case r.Status.Is(1):
		return chain.StatusSuccess
	case r.Status.Is(0):
		return chain.StatusReverted
	default:
		return chain.StatusUnknown
	}
}

// bloom sets three of 2048 bits for the address and each topic of each log, as the
// Yellow Paper's function M3:2048 does.
func (r *Receipt) bloom() (bloom [256]byte) {
	if len(r.Logs) == 0 {
		return bloom
	}
	hasher := crypto.NewKeccakState()
	var digest [32]byte
	add := func(item []byte) {
		hasher.Reset()
		_, _ = hasher.Write(item)      // a hash never fails
		_, _ = hasher.Read(digest[:6]) // only three 16-bit words are used
		for i := 0; i < 6; i += 2 {
			bit := (uint(digest[i])<<8 | uint(digest[i+1])) & 2047
			bloom[len(bloom)-1-int(bit/8)] |= 1 << (bit % 8)
		}
	}
	for i := range r.Logs {
		add(r.Logs[i].Address[:])
		for j := range r.Logs[i].Topics {
			add(r.Logs[i].Topics[j][:])
		}
	}
	return bloom
}

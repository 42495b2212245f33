package evm

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// encode gives the bytes whose Keccak-256 is the block's hash: the fifteen
// fields of the Yellow Paper and the optional ones that later forks appended.
// Headers that lack one of the fifteen (AuRa seals, some rollups) cannot be
// recomputed.
func (h *Header) encode() ([]byte, error) {
	if !h.standard() {
		return nil, fmt.Errorf("header lacks standard fields: %w", chain.ErrHeaderUnverifiable)
	}
	e := newEncoder()
	e.list(func() {
		e.hash(h.ParentHash)
		e.hash(h.UncleHash)
		e.address(h.Miner)
		e.hash(h.StateRoot)
		e.hash(h.TransactionsRoot)
		e.hash(h.ReceiptsRoot)
		e.bytes(h.LogsBloom, h.Difficulty, h.Number, h.GasLimit, h.GasUsed, h.Timestamp, h.ExtraData)
		e.hash(h.MixHash)
		e.bytes(h.Nonce)
		e.bytes(h.tail()...)
	})
	return e.finish(legacyType), nil
}

func (h *Header) standard() bool {
	for _, hash := range []*common.Hash{
		h.Hash, h.ParentHash, h.UncleHash, h.StateRoot, h.TransactionsRoot, h.ReceiptsRoot, h.MixHash,
	} {
		if hash == nil {
			return false
		}
	}
	for _, number := range []Quantity{h.Difficulty, h.Number, h.GasLimit, h.GasUsed, h.Timestamp} {
		if number == nil {
			return false
		}
	}
	return h.Miner != nil && len(h.LogsBloom) == 256 && len(h.Nonce) == 8 && h.ExtraData != nil
}

// tail gives the optional fields up to the last one that is there, in the order
// of the forks: London, Shanghai, Cancun (three), Prague, Amsterdam (two).
func (h *Header) tail() [][]byte {
	fields := [][]byte{
		h.BaseFeePerGas, optionalHash(h.WithdrawalsRoot), h.BlobGasUsed, h.ExcessBlobGas,
		optionalHash(h.ParentBeaconBlockRoot), optionalHash(h.RequestsHash),
		optionalHash(h.BlockAccessListHash), h.SlotNumber,
	}
	last := 0
	for i, field := range fields {
		if field != nil {
			last = i + 1
		}
	}
	return fields[:last]
}

func optionalHash(h *common.Hash) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}

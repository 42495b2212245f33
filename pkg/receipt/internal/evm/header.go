package evm

import (
	"fmt"

	"golang.org/x/crypto/sha3"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// Hash is a Keccak-256 digest.
type Hash [32]byte

// Address is an account address.
type Address [20]byte

// Header holds the members of a block header that a receipt names.
type Header struct {
	Hash             Hash // Keccak-256 of the encoding
	ParentHash       Hash
	TransactionsRoot Hash
	ReceiptsRoot     Hash
	Number           uint64
	Timestamp        uint64 // Unix seconds
}

// Places in a header (yellow paper, section 4.4; OP-stack chains, Arbitrum and
// Polygon keep them). Later forks only append.
const (
	headerParent       = 0
	headerTransactions = 4
	headerReceipts     = 5
	headerNumber       = 8
	headerTimestamp    = 11
	headerLeast        = 15 // members of the first headers
	headerMost         = 32 // far beyond any fork: a bound, not a rule
)

// DecodeHeader reads a header's encoding.
func DecodeHeader(raw []byte) (Header, error) {
	items, err := decodeList(raw)
	if err != nil {
		return Header{}, fmt.Errorf("header: %w", err)
	}
	if len(items) < headerLeast || len(items) > headerMost {
		return Header{}, fmt.Errorf("header has %d members", len(items))
	}
	h := Header{Hash: Keccak256(raw)}
	r := reader{items: items}
	r.fixed(headerParent, h.ParentHash[:])
	r.fixed(headerTransactions, h.TransactionsRoot[:])
	r.fixed(headerReceipts, h.ReceiptsRoot[:])
	h.Number = r.uint64(headerNumber)
	h.Timestamp = r.uint64(headerTimestamp)
	if r.err != nil {
		return Header{}, fmt.Errorf("header: %w", r.err)
	}
	return h, nil
}

// Keccak256 is the hash of everything on these chains: Keccak as submitted, not
// the SHA-3 standard.
func Keccak256(data []byte) (digest Hash) {
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(data) // a hash.Hash never fails
	h.Sum(digest[:0])
	return digest
}

func decodeList(raw []byte) ([]rlp.Item, error) {
	item, err := rlp.Decode(raw)
	if err != nil {
		return nil, err
	}
	return item.Split()
}

package evm

import (
	"fmt"

	"golang.org/x/crypto/sha3"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// Hash is a Keccak-256 digest, or other 32 bytes: a log's topic, a storage slot or its value.
type Hash [32]byte

// Address is an account address.
type Address [20]byte

// Header holds the hash of a block header, and those of its members that are read here.
type Header struct {
	Hash             Hash // Keccak-256 of the encoding
	ParentHash       Hash
	StateRoot        Hash // after the block
	TransactionsRoot Hash
	ReceiptsRoot     Hash
	Number           uint64
	Timestamp        uint64 // Unix seconds
}

// How many members a header may have: the first headers had 15, and no fork comes near 32.
const (
	headerLeast = 15
	headerMost  = 32
)

// DecodeHeader reads a header's encoding. The places of its members are those of the
// yellow paper, section 4.4, which OP-stack chains, Arbitrum and Polygon keep. Later
// forks have only appended members.
func DecodeHeader(raw []byte) (Header, error) {
	m, err := decodeList(raw, headerMost)
	if err != nil {
		return Header{}, fmt.Errorf("header: %w", err)
	}
	if len(m.Items) < headerLeast {
		return Header{}, fmt.Errorf("header has %d members", len(m.Items))
	}
	h := Header{Hash: Keccak256(raw)}
	m.Fixed(0, h.ParentHash[:])
	m.Fixed(3, h.StateRoot[:])
	m.Fixed(4, h.TransactionsRoot[:])
	m.Fixed(5, h.ReceiptsRoot[:])
	h.Number = m.Uint64(8)
	h.Timestamp = m.Uint64(11)
	if m.Err != nil {
		return Header{}, fmt.Errorf("header: %w", m.Err)
	}
	return h, nil
}

// Keccak256 returns the original Keccak-256 of data, which is not SHA3-256 of the standard.
func Keccak256(data []byte) (digest Hash) {
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(data) // a hash.Hash never fails
	h.Sum(digest[:0])
	return digest
}

func decodeList(raw []byte, most int) (rlp.Members, error) {
	item, err := rlp.Decode(raw)
	if err != nil {
		return rlp.Members{}, err
	}
	return item.Split(most)
}

package receipt

import "encoding/hex"

// Proof is the portable Merkle bundle. With it anyone can check, without
// trusting its author, that the transaction and its receipt belong to the
// block with the receipt's block hash.
type Proof struct {
	// HeaderRLP is the block header; its Keccak-256 is the block hash.
	HeaderRLP Hex `json:"headerRlp"`
	// Index is the transaction's place in the block, a decimal string; its RLP is
	// the key in both tries.
	Index string `json:"index"`
	// Transaction holds the trie nodes from transactionsRoot down to the leaf;
	// nodes below 32 bytes are inside their parent and not listed.
	Transaction []Hex `json:"transaction"`
	// Receipt holds the trie nodes from receiptsRoot down, likewise.
	Receipt []Hex `json:"receipt"`
}

// Hex is bytes that are 0x and lower-case hexadecimal digits in JSON.
type Hex []byte

// String returns 0x and lower-case hexadecimal digits.
func (h Hex) String() string { return "0x" + hex.EncodeToString(h) }

// MarshalText returns 0x and lower-case hexadecimal digits.
func (h Hex) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText returns, and nothing else.
func (h *Hex) UnmarshalText(text []byte) error {
	if !lowerHex(string(text), -1) {
		return malformed("bytes are not 0x and lower-case hexadecimal digits")
	}
	*h = make([]byte, hex.DecodedLen(len(text)-2))
	_, err := hex.Decode(*h, text[2:])
	return err
}

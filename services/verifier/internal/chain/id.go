package chain

import (
	"encoding/hex"
	"fmt"
)

// Hash is 32 bytes: the Keccak-256 hash of a transaction, a header or a trie's root node,
// or another word of that size, such as a topic of a log.
type Hash [32]byte

// Address is a 20-byte account address.
type Address [20]byte

// Selector is the first four bytes of a call's input: the function it names.
type Selector [4]byte

// String returns 0x and lower-case hexadecimal digits.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// String returns 0x and lower-case hexadecimal digits, never the EIP-55 spelling.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// String returns 0x and lower-case hexadecimal digits.
func (s Selector) String() string { return "0x" + hex.EncodeToString(s[:]) }

// ParseHash reads 0x and exactly 64 hexadecimal digits of either case.
func ParseHash(text string) (h Hash, err error) { return h, parseHex(h[:], text) }

// ParseAddress reads 0x and exactly 40 hexadecimal digits of either case. It does not
// check the EIP-55 checksum.
func ParseAddress(text string) (a Address, err error) { return a, parseHex(a[:], text) }

// ParseSelector reads 0x and exactly 8 hexadecimal digits of either case.
func ParseSelector(text string) (s Selector, err error) { return s, parseHex(s[:], text) }

func parseHex(into []byte, text string) error {
	want := 2 * len(into)
	if len(text) != 2+want || text[0] != '0' || text[1] != 'x' {
		return fmt.Errorf("must be 0x and exactly %d hexadecimal digits", want)
	}
	if _, err := hex.Decode(into, []byte(text[2:])); err != nil {
		return fmt.Errorf("must be 0x and exactly %d hexadecimal digits", want)
	}
	return nil
}

package rlp

import (
	"encoding/binary"
	"math/bits"
)

// AppendString appends a string of bytes.
func AppendString(to, text []byte) []byte {
	if len(text) == 1 && text[0] < 0x80 {
		return append(to, text[0])
	}
	return append(appendPrefix(to, 0x80, len(text)), text...)
}

// AppendUint appends an unsigned number.
func AppendUint(to []byte, n uint64) []byte {
	return AppendString(to, bigEndian(n))
}

// AppendList appends a list whose encoded items are given one after another.
func AppendList(to, items []byte) []byte {
	return append(appendPrefix(to, 0xc0, len(items)), items...)
}

func appendPrefix(to []byte, base byte, size int) []byte {
	if size <= 55 {
		return append(to, base+byte(size))
	}
	long := bigEndian(uint64(size))
	to = append(to, base+55+byte(len(long)))
	return append(to, long...)
}

// bigEndian returns a number without leading zeros; nothing for zero.
func bigEndian(n uint64) []byte {
	var padded [8]byte
	binary.BigEndian.PutUint64(padded[:], n)
	return padded[bits.LeadingZeros64(n)/8:]
}

package rlp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
)

// Item is one decoded item: a string of bytes or a list of items.
type Item struct {
	List    bool
	Content []byte // the bytes, or the items one after another
	Raw     []byte // the whole encoding, prefix included
}

var (
	errShort     = errors.New("rlp: ends too early")
	errTrailing  = errors.New("rlp: bytes after the item")
	errCanonical = errors.New("rlp: not the shortest encoding")
)

// Decode reads exactly one item. The item shares memory with data.
func Decode(data []byte) (Item, error) {
	item, rest, err := next(data)
	if err != nil {
		return Item{}, err
	}
	if len(rest) > 0 {
		return Item{}, errTrailing
	}
	return item, nil
}

// Split returns the items of a list.
func (i Item) Split() ([]Item, error) {
	if !i.List {
		return nil, errors.New("rlp: not a list")
	}
	var items []Item
	for rest := i.Content; len(rest) > 0; {
		item, after, err := next(rest)
		if err != nil {
			return nil, err
		}
		items, rest = append(items, item), after
	}
	return items, nil
}

// Bytes returns the bytes of a string.
func (i Item) Bytes() ([]byte, error) {
	if i.List {
		return nil, errors.New("rlp: a list, not a string")
	}
	return i.Content, nil
}

// Fixed copies a string that must fill into exactly.
func (i Item) Fixed(into []byte) error {
	if i.List || len(i.Content) != len(into) {
		return fmt.Errorf("rlp: not a string of %d bytes", len(into))
	}
	copy(into, i.Content)
	return nil
}

// Uint64 returns an unsigned number: big endian, without leading zeros.
func (i Item) Uint64() (uint64, error) {
	if err := i.number(8); err != nil {
		return 0, err
	}
	var padded [8]byte
	copy(padded[8-len(i.Content):], i.Content)
	return binary.BigEndian.Uint64(padded[:]), nil
}

// Big returns an unsigned number of up to 256 bits.
func (i Item) Big() (*big.Int, error) {
	if err := i.number(32); err != nil {
		return nil, err
	}
	return new(big.Int).SetBytes(i.Content), nil
}

func (i Item) number(size int) error {
	switch {
	case i.List || len(i.Content) > size:
		return fmt.Errorf("rlp: not a number of up to %d bytes", size)
	case len(i.Content) > 0 && i.Content[0] == 0:
		return errCanonical
	}
	return nil
}

// next reads the first item of data.
func next(data []byte) (item Item, rest []byte, err error) {
	if len(data) == 0 {
		return Item{}, nil, errShort
	}
	prefix := data[0]
	if prefix < 0x80 { // the byte is its own encoding
		return Item{Content: data[:1], Raw: data[:1]}, data[1:], nil
	}
	list := prefix >= 0xc0
	if list {
		prefix -= 0x40 // lists are laid out as strings are
	}
	head, size := 1, uint64(prefix-0x80)
	if size > 55 {
		head = 1 + int(size-55)
		if size, err = longSize(data, head); err != nil {
			return Item{}, nil, err
		}
	}
	if size > uint64(len(data)-head) {
		return Item{}, nil, errShort
	}
	end := head + int(size)
	if !list && size == 1 && data[head] < 0x80 {
		return Item{}, nil, errCanonical
	}
	return Item{List: list, Content: data[head:end], Raw: data[:end]}, data[end:], nil
}

// longSize reads a size of more than 55, which follows the prefix up to head.
func longSize(data []byte, head int) (uint64, error) {
	if len(data) < head {
		return 0, errShort
	}
	var padded [8]byte
	copy(padded[8-(head-1):], data[1:head])
	size := binary.BigEndian.Uint64(padded[:])
	if data[1] == 0 || size <= 55 {
		return 0, errCanonical
	}
	return size, nil
}

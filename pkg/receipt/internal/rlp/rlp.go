// Package rlp reads and writes Recursive Length Prefix encoding (Ethereum yellow paper, appendix B)
// as strictly as consensus does: an item has exactly one encoding, and whatever is not that one is
// an error. Package evm knows what the items mean.
package rlp

import (
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
	errCanonical = errors.New("rlp: not the shortest encoding")
	errList      = errors.New("rlp: a list, not a string")
)

// Decode reads exactly one item, and does not look into a list: Split does. The item
// shares memory with data.
func Decode(data []byte) (Item, error) {
	item, rest, err := next(data)
	if err == nil && len(rest) > 0 {
		err = errors.New("rlp: bytes after the item")
	}
	return item, err
}

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
	if size > 55 { // the size follows, in so many bytes
		head = 1 + int(size-55)
		if len(data) < head {
			return Item{}, nil, errShort
		}
		if size = bigEndian(data[1:head]); data[1] == 0 || size <= 55 {
			return Item{}, nil, errCanonical
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

// bigEndian returns the number that up to 8 bytes spell, the highest first.
func bigEndian(digits []byte) (n uint64) {
	for _, digit := range digits {
		n = n<<8 | uint64(digit)
	}
	return n
}

// Members are the items of a list. The methods that read an item return zero or nil when
// it is not what they read, and keep the first such error in Err.
type Members struct {
	Items []Item
	Err   error
}

// Split returns the members of a list. An item that is no list is an error, and so is a list of more than
// most members: a member that one byte encodes takes many times as much memory.
func (i Item) Split(most int) (m Members, err error) {
	if !i.List {
		return Members{}, errors.New("rlp: not a list")
	}
	for rest := i.Content; len(rest) > 0; {
		if len(m.Items) == most {
			return Members{}, fmt.Errorf("rlp: more than %d items", most)
		}
		var item Item
		if item, rest, err = next(rest); err != nil {
			return Members{}, err
		}
		m.Items = append(m.Items, item)
	}
	return m, nil
}

// Check sets Err to err, with the index of a member, unless err is nil or Err is set already.
func (m *Members) Check(at int, err error) {
	if err != nil && m.Err == nil {
		m.Err = fmt.Errorf("member %d: %w", at, err)
	}
}

// Bytes returns the string at an index, not a copy of it.
func (m *Members) Bytes(at int) []byte {
	if m.Items[at].List {
		m.Check(at, errList)
		return nil
	}
	return m.Items[at].Content
}

// Fixed copies the string at an index to into, which it must fill exactly.
func (m *Members) Fixed(at int, into []byte) {
	if item := m.Items[at]; item.List || len(item.Content) != len(into) {
		m.Check(at, fmt.Errorf("rlp: not a string of %d bytes", len(into)))
	} else {
		copy(into, item.Content)
	}
}

// Uint64 returns the unsigned number of up to 64 bits at an index: big endian, without leading zeros.
func (m *Members) Uint64(at int) uint64 { return bigEndian(m.number(at, 8)) }

// Big returns the unsigned number of up to 256 bits at an index: big endian, without leading zeros.
func (m *Members) Big(at int) *big.Int { return new(big.Int).SetBytes(m.number(at, 32)) }

func (m *Members) number(at, size int) []byte {
	item := m.Items[at]
	switch {
	case item.List || len(item.Content) > size:
		m.Check(at, fmt.Errorf("rlp: not a number of up to %d bytes", size))
	case len(item.Content) > 0 && item.Content[0] == 0:
		m.Check(at, errCanonical)
	default:
		return item.Content
	}
	return nil
}

// AppendString appends a string of bytes.
func AppendString(to, text []byte) []byte {
	if len(text) == 1 && text[0] < 0x80 {
		return append(to, text[0])
	}
	return append(appendPrefix(to, 0x80, len(text)), text...)
}

// AppendUint appends an unsigned number.
func AppendUint(to []byte, n uint64) []byte {
	return AppendString(to, new(big.Int).SetUint64(n).Bytes())
}

// AppendList appends a list whose encoded items are given one after another.
func AppendList(to, items []byte) []byte {
	return append(appendPrefix(to, 0xc0, len(items)), items...)
}

func appendPrefix(to []byte, base byte, size int) []byte {
	if size <= 55 {
		return append(to, base+byte(size))
	}
	long := big.NewInt(int64(size)).Bytes()
	to = append(to, base+55+byte(len(long)))
	return append(to, long...)
}

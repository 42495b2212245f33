package evm

import (
	"fmt"
	"math/big"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// reader reads the members of a list by their place and keeps the first error.
// The caller has checked how many members there are.
type reader struct {
	items []rlp.Item
	err   error
}

func (r *reader) note(at int, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("member %d: %w", at, err)
	}
}

func (r *reader) fixed(at int, into []byte) {
	r.note(at, r.items[at].Fixed(into))
}

func (r *reader) uint64(at int) uint64 {
	n, err := r.items[at].Uint64()
	r.note(at, err)
	return n
}

func (r *reader) big(at int) *big.Int {
	n, err := r.items[at].Big()
	r.note(at, err)
	return n
}

func (r *reader) bytes(at int) []byte {
	text, err := r.items[at].Bytes()
	r.note(at, err)
	return text
}

func (r *reader) address(at int) *Address {
	var a Address
	r.fixed(at, a[:])
	return &a
}

// recipient is nil when the member is empty: a contract creation.
func (r *reader) recipient(at int) *Address {
	if item := r.items[at]; !item.List && len(item.Content) == 0 {
		return nil
	}
	return r.address(at)
}

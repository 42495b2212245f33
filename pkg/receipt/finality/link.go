package finality

import (
	"encoding/binary"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
)

// What EIP-2935 fixes: the contract that keeps the hashes of the last blocks, and how many.
const (
	HistoryContract = "0x0000f90827f1c53a10cb7a02335b175320002935"
	HistoryWindow   = 8191
)

// HistorySlot returns the storage slot in which HistoryContract keeps the hash of a block.
func HistorySlot(number uint64) (slot Root) {
	binary.BigEndian.PutUint64(slot[24:], number%HistoryWindow)
	return slot
}

// verify checks that the link ties block to the anchor's block, whose hash is anchor, and returns
// the number of the anchor's block. With LinkSame that is block.Number, unproven. ErrLink.
func (l *Link) verify(anchor Root, block Block) (number Uint64, err error) {
	switch l.Kind {
	case LinkSame:
		if anchor != block.Hash {
			return 0, fmt.Errorf("%w: it is not the finalized block itself", ErrLink)
		}
		return block.Number, nil
	case LinkHeaders:
		return l.followHeaders(anchor, block)
	default:
		return l.lookUp(anchor, block)
	}
}

// followHeaders goes by Headers from the anchor's block down to block.
func (l *Link) followHeaders(anchor Root, block Block) (number Uint64, err error) {
	hash := evm.Hash(anchor)
	for i, raw := range l.Headers {
		header, err := evm.DecodeHeader(raw)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%w: %w", ErrLink, err)
		case header.Hash != hash:
			return 0, fmt.Errorf("%w: header %d is not the parent of the one before", ErrLink, i+1)
		case header.Number != uint64(block.Number)+uint64(len(l.Headers)-i):
			return 0, fmt.Errorf("%w: header %d has the number %d", ErrLink, i+1, header.Number)
		}
		hash = header.ParentHash
	}
	if Root(hash) != block.Hash {
		return 0, fmt.Errorf("%w: the last header is not a child of the block", ErrLink)
	}
	return block.Number + Uint64(len(l.Headers)), nil
}

// lookUp compares block with its hash in the state of the anchor's block.
func (l *Link) lookUp(anchor Root, block Block) (number Uint64, err error) {
	header, err := evm.DecodeHeader(l.Header)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrLink, err)
	}
	if Root(header.Hash) != anchor {
		return 0, fmt.Errorf("%w: the header is not the finalized block's", ErrLink)
	}
	// 1 <= distance <= HistoryWindow: below 1 it wraps around
	if header.Number-uint64(block.Number)-1 >= HistoryWindow {
		return 0, fmt.Errorf("%w: block %d is not among the %d before %d", ErrLink, block.Number, HistoryWindow,
			header.Number)
	}
	slot := HistorySlot(uint64(block.Number))
	kept, err := evm.StorageAt(header.StateRoot, historyContract, evm.Hash(slot), l.Account, l.Storage)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrLink, err)
	}
	if Root(kept) != block.Hash {
		return 0, fmt.Errorf("%w: the chain's record has the hash %s at this height", ErrLink, Root(kept))
	}
	return Uint64(header.Number), nil
}

var historyContract = evm.Address{
	0x00, 0x00, 0xf9, 0x08, 0x27, 0xf1, 0xc5, 0x3a, 0x10, 0xcb, 0x7a, 0x02, 0x33, 0x5b, 0x17, 0x53, 0x20, 0x00, 0x29,
	0x35,
}

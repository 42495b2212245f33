package evm

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
)

// encoder writes consensus RLP. The fields it is given are already the bytes
// that RLP stores, so one method serves numbers, hashes and data alike.
type encoder struct{ rlp.EncoderBuffer }

func newEncoder() encoder { return encoder{rlp.NewEncoderBuffer(nil)} }

// list writes a list with what body writes in it.
func (e encoder) list(body func()) {
	at := e.List()
	body()
	e.ListEnd(at)
}

// bytes writes each value as one RLP string.
func (e encoder) bytes(values ...[]byte) {
	for _, value := range values {
		e.WriteBytes(value)
	}
}

func (e encoder) hash(h *common.Hash) { e.WriteBytes(h[:]) }

// address writes 20 bytes, or the empty string for nil (contract creation).
func (e encoder) address(a *common.Address) {
	if a == nil {
		e.WriteBytes(nil)
		return
	}
	e.WriteBytes(a[:])
}

// finish gives the encoding behind the type byte; legacy (0) has no such byte.
func (e encoder) finish(kind byte) []byte {
	if kind == legacyType {
		out := e.ToBytes()
		e.flush()
		return out
	}
	out := make([]byte, 1, 1+e.Size())
	out[0] = kind
	out = e.AppendToBytes(out)
	e.flush()
	return out
}

// flush gives the pooled buffer back; without a writer it cannot fail.
func (e encoder) flush() { _ = e.Flush() }

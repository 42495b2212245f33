package evm_test

import (
	"runtime"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// A proof comes from anyone: a list of a million items of a byte each takes no multiple of its bytes.
func TestDecode_TooManyItemsTakeNoMemory(t *testing.T) {
	const size = 1 << 20
	many := rlp.AppendList(nil, make([]byte, size))
	withLogs := func(logs []byte) []byte {
		content := append([]byte{1, 2, 0xb9, 1, 0}, make([]byte, 256)...)
		return append([]byte{2}, rlp.AppendList(nil, append(content, logs...))...)
	}
	address := append([]byte{0x94}, make([]byte, 20)...)
	log := rlp.AppendList(nil, append(append(address, many...), 0x80))
	receipt := func(raw []byte) func() error {
		return func() error { _, err := evm.DecodeReceipt(raw); return err }
	}
	for name, decode := range map[string]func() error{
		"a header":            func() error { _, err := evm.DecodeHeader(many); return err },
		"a transaction":       func() error { _, err := evm.DecodeTransaction(append([]byte{2}, many...)); return err },
		"a receipt":           receipt(append([]byte{2}, many...)),
		"a receipt's logs":    receipt(withLogs(many)),
		"a log":               receipt(withLogs(rlp.AppendList(nil, many))),
		"the topics of a log": receipt(withLogs(rlp.AppendList(nil, log))),
		"a node of a trie": func() error {
			_, err := evm.VerifyTrie(evm.Keccak256(many), []byte{1}, [][]byte{many})
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode()
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; err == nil || taken > 20*size {
			t.Errorf("%s: %d MB, %v", name, taken>>20, err)
		}
	}
}

package evm

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// ErrNoRaw is a node that does not tell consensus bytes.
var ErrNoRaw = errors.New("the node does not tell the raw bytes")

// ErrReceiptsRoot is an ErrIntegrity of the receipts alone.
var ErrReceiptsRoot = fmt.Errorf("receiptsRoot: %w", chain.ErrIntegrity)

// Opaque lists the transactions whose types cannot be encoded. Their consensus
// bytes may be set, as the node tells them: the roots judge those as they judge all
// others, so the other transactions of the block can be proven. What such a
// transaction did is not read.
func (m *Material) Opaque() (list []int) {
	for i := range m.Block.Transactions {
		if kind, err := m.Block.Transactions[i].kind(); err == nil && !known(kind) {
			list = append(list, i)
		}
	}
	return list
}

// SetTransaction sets the bytes of an opaque transaction.
func (m *Material) SetTransaction(at int, bytes []byte) {
	if m.transactionBytes == nil {
		m.transactionBytes = map[int][]byte{}
	}
	m.transactionBytes[at] = bytes
}

// SetBlock takes the opaque transactions out of the block's own RLP: a list of the
// header, the transactions and more. A typed transaction is a string in it.
func (m *Material) SetBlock(block []byte) error {
	content, _, err := rlp.SplitList(block)
	if err != nil {
		return ErrNoRaw
	}
	_, _, rest, err := rlp.Split(content) // the header
	if err != nil {
		return ErrNoRaw
	}
	transactions, _, err := rlp.SplitList(rest)
	if err != nil {
		return ErrNoRaw
	}
	var values [][]byte
	for len(transactions) > 0 {
		kind, value, rest, err := rlp.Split(transactions)
		if err != nil {
			return ErrNoRaw
		}
		if kind == rlp.List { // legacy, which is encoded as it is
			value = transactions[:len(transactions)-len(rest)]
		}
		values, transactions = append(values, value), rest
	}
	if len(values) != len(m.Block.Transactions) {
		return ErrNoRaw
	}
	for _, at := range m.Opaque() {
		m.SetTransaction(at, values[at])
	}
	return nil
}

// SetReceipts takes the receipts of the opaque transactions out of those of the
// block. The gas that they count up to must be in them: the next transaction's gas
// is the difference.
func (m *Material) SetReceipts(all []Data) error {
	if len(all) != len(m.Receipts) {
		return ErrNoRaw
	}
	m.receiptBytes = map[int][]byte{}
	for _, at := range m.Opaque() {
		if !m.Receipts[at].CumulativeGasUsed.isIn(all[at]) {
			return ErrNoRaw
		}
		m.receiptBytes[at] = all[at]
	}
	return nil
}

// isIn reports whether the quantity is the second member of a typed receipt.
func (q Quantity) isIn(receipt []byte) bool {
	if q == nil || len(receipt) == 0 {
		return false
	}
	content, rest, err := rlp.SplitList(receipt[1:])
	if err != nil || len(rest) > 0 {
		return false
	}
	if _, _, content, err = rlp.Split(content); err != nil {
		return false
	}
	cumulative, _, err := rlp.SplitUint64(content)
	return err == nil && q.Is(cumulative)
}

// encoded returns the bytes that stand for a transaction under transactionsRoot.
func (m *Material) encoded(i int) ([]byte, error) {
	if bytes, ok := m.transactionBytes[i]; ok {
		return bytes, nil
	}
	return m.Block.Transactions[i].Encode()
}

// encodedReceipt returns the bytes that stand for a receipt under receiptsRoot.
func (m *Material) encodedReceipt(i int, kind byte) ([]byte, error) {
	if bytes, ok := m.receiptBytes[i]; ok {
		return bytes, nil
	}
	return m.Receipts[i].Encode(kind)
}

// known reports whether transactions of a type can be encoded and read.
func known(kind byte) bool {
	_, ok := new(Transaction).body(kind)
	return ok
}

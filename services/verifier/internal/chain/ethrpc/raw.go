package ethrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
	"golang.org/x/sync/errgroup"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// maxRaw is how many transactions of unknown types a block may have.
const maxRaw = 500

// errNoRaw is a node that does not tell consensus bytes.
var errNoRaw = errors.New("the node does not tell the raw bytes")

// proveOpaque proves a block in which transactions have types that cannot be
// encoded. Their consensus bytes are taken as the node tells them: the roots judge
// those as they judge all others, so the other transactions of the block can be
// proven. What such a transaction did is not read.
//
// cause is why the block could not be proven without; it stays the error where the
// node does not tell raw bytes.
func (r *Reader) proveOpaque(ctx context.Context, e *endpoint, l *lease, m *material, number uint64, hash common.Hash, cause error) (*provenBlock, error) {
	err := m.rawTransactions(ctx, e, l, number)
	if err == nil {
		var proven *provenBlock
		proven, err = prove(m, number, hash, r.identity.ID)
		if !errors.Is(err, errReceiptsRoot) {
			return proven, err
		}
		// Receipts of most types have the usual form; of these they have not.
		if err = m.rawReceipts(ctx, e, l, hash); err == nil {
			return prove(m, number, hash, r.identity.ID)
		}
	}
	if isAny(err, errNoRaw, errBatchRefused) {
		return nil, cause
	}
	return nil, err
}

// opaque lists the transactions whose types cannot be encoded.
func (m *material) opaque() (list []int) {
	for i := range m.block.Transactions {
		if kind, err := m.block.Transactions[i].kind(); err == nil && !known(kind) {
			list = append(list, i)
		}
	}
	return list
}

// rawTransactions asks for the bytes of the opaque transactions: one by one, which
// more nodes offer, or else with the whole block.
func (m *material) rawTransactions(ctx context.Context, e *endpoint, l *lease, number uint64) error {
	list := m.opaque()
	if len(list) == 0 || len(list) > maxRaw {
		return errNoRaw
	}
	calls := make([]*call, len(list))
	for i, at := range list {
		if m.block.Transactions[at].Hash == nil {
			return errNoRaw
		}
		calls[i] = newCall("eth_getRawTransactionByHash", *m.block.Transactions[at].Hash)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelBatches)
	for from := 0; from < len(calls); from += maxBatch {
		part := calls[from:min(from+maxBatch, len(calls))]
		group.Go(func() error { return guarded(e.log, func() error { return e.do(groupCtx, l, part...) }) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	m.transactionBytes = make(map[int][]byte, len(list))
	for i, c := range calls {
		var bytes blob
		if found, err := c.into(&bytes); err != nil || !found || len(bytes) == 0 {
			return m.rawBlock(ctx, e, l, number, list)
		}
		m.transactionBytes[list[i]] = bytes
	}
	return nil
}

// rawBlock takes the transactions out of the block's own RLP: a list of the header,
// the transactions and more. A typed transaction is a string in it.
func (m *material) rawBlock(ctx context.Context, e *endpoint, l *lease, number uint64, list []int) error {
	c := newCall("debug_getRawBlock", hexNumber(number))
	if err := e.do(ctx, l, c); err != nil {
		return err
	}
	var block blob
	if found, err := c.into(&block); err != nil || !found {
		return errNoRaw
	}
	content, _, err := rlp.SplitList(block)
	if err != nil {
		return errNoRaw
	}
	_, _, rest, err := rlp.Split(content) // the header
	if err != nil {
		return errNoRaw
	}
	transactions, _, err := rlp.SplitList(rest)
	if err != nil {
		return errNoRaw
	}
	var values [][]byte
	for len(transactions) > 0 {
		kind, value, rest, err := rlp.Split(transactions)
		if err != nil {
			return errNoRaw
		}
		if kind == rlp.List { // legacy, which is encoded as it is
			value = transactions[:len(transactions)-len(rest)]
		}
		values, transactions = append(values, value), rest
	}
	if len(values) != len(m.block.Transactions) {
		return errNoRaw
	}
	for _, at := range list {
		m.transactionBytes[at] = values[at]
	}
	return nil
}

// rawReceipts asks for the bytes of the opaque transactions' receipts. The gas that
// they count up to must be in them: the next transaction's gas is the difference.
func (m *material) rawReceipts(ctx context.Context, e *endpoint, l *lease, hash common.Hash) error {
	c := newCall("debug_getRawReceipts", hash)
	if err := e.do(ctx, l, c); err != nil {
		return err
	}
	var all []blob
	if found, err := c.into(&all); err != nil || !found || len(all) != len(m.receipts) {
		return errNoRaw
	}
	m.receiptBytes = map[int][]byte{}
	for _, at := range m.opaque() {
		if !m.receipts[at].CumulativeGasUsed.isIn(all[at]) {
			return errNoRaw
		}
		m.receiptBytes[at] = all[at]
	}
	return nil
}

// isIn reports whether the quantity is the second member of a typed receipt.
func (q quantity) isIn(receipt []byte) bool {
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
	return err == nil && q.is(cumulative)
}

// encoded returns the bytes that stand for a transaction under transactionsRoot.
func (m *material) encoded(i int) ([]byte, error) {
	if bytes, ok := m.transactionBytes[i]; ok {
		return bytes, nil
	}
	return m.block.Transactions[i].encode()
}

// encodedReceipt returns the bytes that stand for a receipt under receiptsRoot.
func (m *material) encodedReceipt(i int, kind byte) ([]byte, error) {
	if bytes, ok := m.receiptBytes[i]; ok {
		return bytes, nil
	}
	return m.receipts[i].encode(kind)
}

// known reports whether transactions of a type can be encoded and read.
func known(kind byte) bool {
	_, ok := new(rpcTransaction).body(kind)
	return ok
}

// errReceiptsRoot is an ErrIntegrity of the receipts alone.
var errReceiptsRoot = fmt.Errorf("receiptsRoot: %w", chain.ErrIntegrity)

package evm

import (
	"fmt"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// TxReceipt holds what the chain's own receipt of a transaction commits to.
type TxReceipt struct {
	Type byte
	// Success is nil before the Byzantium fork, when a state root stood in its place.
	Success       *bool
	CumulativeGas uint64 // of the block up to and with this transaction
	Logs          []Log
	DepositNonce  *uint64 // OP-stack deposits from the Canyon fork on
}

// Log is an event that a contract wrote.
type Log struct {
	Address Address
	Topics  []Hash
	Data    []byte
}

const (
	receiptMembers = 4 // status or root, cumulative gas, bloom, logs
	// depositMembers adds the nonce and a version (OP stack, Canyon). Deposits
	// before that have four members, whatever their RPC shows.
	depositMembers = 6
	bloomSize      = 256
	maxTopics      = 4
)

// DecodeReceipt reads a receipt as its trie holds it.
func DecodeReceipt(raw []byte) (TxReceipt, error) {
	kind, payload, err := splitType(raw)
	if err != nil {
		return TxReceipt{}, fmt.Errorf("transaction receipt: %w", err)
	}
	items, err := decodeList(payload)
	if err != nil {
		return TxReceipt{}, fmt.Errorf("transaction receipt: %w", err)
	}
	deposit := kind == typeDeposit && len(items) == depositMembers
	if len(items) != receiptMembers && !deposit {
		return TxReceipt{}, fmt.Errorf("transaction receipt of type 0x%x has %d members", kind, len(items))
	}
	tr := TxReceipt{Type: kind}
	r := reader{items: items}
	if tr.Success, err = success(items[0]); err != nil {
		return TxReceipt{}, err
	}
	tr.CumulativeGas = r.uint64(1)
	var bloom [bloomSize]byte
	r.fixed(2, bloom[:])
	if deposit {
		nonce := r.uint64(4)
		tr.DepositNonce = &nonce
		r.uint64(5)
	}
	if r.err != nil {
		return TxReceipt{}, fmt.Errorf("transaction receipt: %w", r.err)
	}
	if tr.Logs, err = decodeLogs(items[3]); err != nil {
		return TxReceipt{}, fmt.Errorf("transaction receipt: %w", err)
	}
	return tr, nil
}

// success reads the first member: 1 or 0 (EIP-658), or a state root before it.
func success(item rlp.Item) (*bool, error) {
	content, err := item.Bytes()
	if err == nil && len(content) == len(Hash{}) {
		return nil, nil
	}
	status, err := item.Uint64()
	if err != nil || status > 1 {
		return nil, fmt.Errorf("transaction receipt: neither a status nor a state root")
	}
	yes := status == 1
	return &yes, nil
}

func decodeLogs(list rlp.Item) ([]Log, error) {
	items, err := list.Split()
	if err != nil {
		return nil, err
	}
	logs := make([]Log, len(items))
	for i, item := range items {
		if logs[i], err = decodeLog(item); err != nil {
			return nil, fmt.Errorf("log %d: %w", i, err)
		}
	}
	return logs, nil
}

func decodeLog(item rlp.Item) (log Log, err error) {
	members, err := item.Split()
	if err != nil {
		return Log{}, err
	}
	if len(members) != 3 {
		return Log{}, fmt.Errorf("%d members, not 3", len(members))
	}
	topics, err := members[1].Split()
	if err != nil || len(topics) > maxTopics {
		return Log{}, fmt.Errorf("not a list of up to %d topics", maxTopics)
	}
	r := reader{items: members}
	r.fixed(0, log.Address[:])
	log.Data = r.bytes(2)
	log.Topics = make([]Hash, len(topics))
	for i, topic := range topics {
		r.note(1, topic.Fixed(log.Topics[i][:]))
	}
	return log, r.err
}

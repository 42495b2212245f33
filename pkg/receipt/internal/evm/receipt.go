package evm

import (
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// TxReceipt holds what the chain's own receipt of a transaction commits to.
type TxReceipt struct {
	Type byte
	// Success is nil before the Byzantium fork, when receipts held a state root instead.
	Success       *bool
	CumulativeGas uint64 // of the block up to and with this transaction
	Logs          []Log
	DepositNonce  *uint64 // of an OP-stack deposit from the Canyon fork on; else nil
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
	logMembers     = 3              // address, topics, data
	logLeast       = 1 + 21 + 1 + 1 // bytes of the encoding of a log, without topics and data
	maxTopics      = 4
)

// DecodeReceipt reads a receipt as its trie holds it.
func DecodeReceipt(raw []byte) (TxReceipt, error) {
	kind, payload, err := splitType(raw)
	if err != nil {
		return TxReceipt{}, fmt.Errorf("transaction receipt: %w", err)
	}
	m, err := decodeList(payload, depositMembers)
	if err != nil {
		return TxReceipt{}, fmt.Errorf("transaction receipt: %w", err)
	}
	deposit := kind == typeDeposit && len(m.Items) == depositMembers
	if len(m.Items) != receiptMembers && !deposit {
		return TxReceipt{}, fmt.Errorf("transaction receipt of type 0x%x has %d members", kind, len(m.Items))
	}
	tr := TxReceipt{Type: kind}
	// 1 or 0 (EIP-658), or a state root before it.
	if first := m.Items[0]; first.List || len(first.Content) != len(Hash{}) {
		status := m.Uint64(0)
		if m.Err != nil || status > 1 {
			return TxReceipt{}, errors.New("transaction receipt: neither a status nor a state root")
		}
		success := status == 1
		tr.Success = &success
	}
	tr.CumulativeGas = m.Uint64(1)
	m.Fixed(2, make([]byte, bloomSize))
	if deposit {
		nonce := m.Uint64(4)
		tr.DepositNonce = &nonce
		m.Uint64(5)
	}
	if err = m.Err; err == nil {
		tr.Logs, err = decodeLogs(m.Items[3])
	}
	if err != nil {
		return TxReceipt{}, fmt.Errorf("transaction receipt: %w", err)
	}
	return tr, nil
}

func decodeLogs(list rlp.Item) ([]Log, error) {
	m, err := list.Split(len(list.Content) / logLeast)
	if err != nil {
		return nil, err
	}
	logs := make([]Log, len(m.Items))
	for i, item := range m.Items {
		if logs[i], err = decodeLog(item); err != nil {
			return nil, fmt.Errorf("log %d: %w", i, err)
		}
	}
	return logs, nil
}

func decodeLog(item rlp.Item) (log Log, err error) {
	m, err := item.Split(logMembers)
	if err != nil {
		return Log{}, err
	}
	if len(m.Items) != logMembers {
		return Log{}, fmt.Errorf("%d members, not %d", len(m.Items), logMembers)
	}
	topics, err := m.Items[1].Split(maxTopics)
	if err != nil {
		return Log{}, fmt.Errorf("not a list of up to %d topics", maxTopics)
	}
	m.Fixed(0, log.Address[:])
	log.Data = m.Bytes(2)
	log.Topics = make([]Hash, len(topics.Items))
	for i := range log.Topics {
		topics.Fixed(i, log.Topics[i][:])
	}
	m.Check(1, topics.Err)
	return log, m.Err
}

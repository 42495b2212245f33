package ethrpc

import (
	"encoding/hex"
	"errors"

	"github.com/ethereum/go-ethereum/common"
)

// quantity is a JSON-RPC number ("0x1f") as the big-endian bytes that RLP
// wants: no leading zero byte, so zero is empty. nil means absent. At most 256 bits.
type quantity []byte

var (
	errQuantity = errors.New("not a hexadecimal quantity of at most 256 bits")
	errData     = errors.New("not hexadecimal data")
)

// UnmarshalJSON reads "0x" and hexadecimal digits. Leading zeros and a bare "0x"
// are let pass, because some nodes write them; the hashes catch a wrong value.
func (q *quantity) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*q = nil
		return nil
	}
	digits, ok := hexDigits(text)
	if !ok {
		return errQuantity
	}
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	if len(digits) > 64 {
		return errQuantity
	}
	out := make([]byte, (len(digits)+1)/2)
	if len(digits)%2 == 1 {
		var padded [64]byte
		padded[0] = '0'
		copy(padded[1:], digits)
		digits = padded[:len(digits)+1]
	}
	if _, err := hex.Decode(out, digits); err != nil {
		return errQuantity
	}
	*q = out
	return nil
}

// uint64 gives the value; false when it is absent or does not fit.
func (q quantity) uint64() (value uint64, ok bool) {
	if q == nil || len(q) > 8 {
		return 0, false
	}
	for _, b := range q {
		value = value<<8 | uint64(b)
	}
	return value, true
}

// committed gives the value that hashed bytes with the quantity in them commit to:
// there an absent one is written as zero is, and no hash tells the two apart. What
// is said of such a number must not depend on which of them a node chose to tell.
func (q quantity) committed() (value uint64, ok bool) {
	if q == nil {
		return 0, true
	}
	return q.uint64()
}

// is tells whether the quantity is present and equals value.
func (q quantity) is(value uint64) bool {
	got, ok := q.uint64()
	return ok && got == value
}

// blob is JSON-RPC data ("0x" and whole bytes); nil means absent.
type blob []byte

// UnmarshalJSON reads "0x" and an even number of hexadecimal digits.
func (b *blob) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*b = nil
		return nil
	}
	digits, ok := hexDigits(text)
	if !ok {
		return errData
	}
	out := make([]byte, len(digits)/2)
	if _, err := hex.Decode(out, digits); err != nil {
		return errData
	}
	*b = out
	return nil
}

// hexDigits strips the quotes and the 0x of a JSON string.
func hexDigits(text []byte) ([]byte, bool) {
	n := len(text)
	if n < 4 || text[0] != '"' || text[n-1] != '"' || text[1] != '0' || (text[2] != 'x' && text[2] != 'X') {
		return nil, false
	}
	return text[3 : n-1], true
}

// rpcTransaction is a transaction as nodes tell it, with the members of every
// type that can be encoded. Absent members are nil.
type rpcTransaction struct {
	Type             quantity     `json:"type"`
	Hash             *common.Hash `json:"hash"`
	BlockHash        *common.Hash `json:"blockHash"`
	BlockNumber      quantity     `json:"blockNumber"`
	TransactionIndex quantity     `json:"transactionIndex"`

	ChainID              quantity         `json:"chainId"`
	Nonce                quantity         `json:"nonce"`
	GasPrice             quantity         `json:"gasPrice"`
	MaxPriorityFeePerGas quantity         `json:"maxPriorityFeePerGas"`
	MaxFeePerGas         quantity         `json:"maxFeePerGas"`
	Gas                  quantity         `json:"gas"`
	From                 *common.Address  `json:"from"`
	To                   *common.Address  `json:"to"`
	Value                quantity         `json:"value"`
	Input                blob             `json:"input"`
	AccessList           array[rpcAccess] `json:"accessList"`
	MaxFeePerBlobGas     quantity         `json:"maxFeePerBlobGas"`
	BlobVersionedHashes  []common.Hash    `json:"blobVersionedHashes"`
	AuthorizationList    array[rpcAuth]   `json:"authorizationList"`
	V                    quantity         `json:"v"`
	R                    quantity         `json:"r"`
	S                    quantity         `json:"s"`
	YParity              quantity         `json:"yParity"`

	// OP stack deposits (0x7e).
	SourceHash *common.Hash `json:"sourceHash"`
	Mint       quantity     `json:"mint"`
	IsSystemTx bool         `json:"isSystemTx"`

	// Arbitrum (0x64 to 0x6a).
	RequestID           *common.Hash    `json:"requestId"`
	TicketID            *common.Hash    `json:"ticketId"`
	MaxRefund           quantity        `json:"maxRefund"`
	SubmissionFeeRefund quantity        `json:"submissionFeeRefund"`
	RefundTo            *common.Address `json:"refundTo"`
	L1BaseFee           quantity        `json:"l1BaseFee"`
	DepositValue        quantity        `json:"depositValue"`
	RetryTo             *common.Address `json:"retryTo"`
	RetryValue          quantity        `json:"retryValue"`
	RetryData           blob            `json:"retryData"`
	Beneficiary         *common.Address `json:"beneficiary"`
	MaxSubmissionFee    quantity        `json:"maxSubmissionFee"`
}

type rpcAccess struct {
	Address     common.Address `json:"address"`
	StorageKeys []common.Hash  `json:"storageKeys"`
}

type rpcAuth struct {
	ChainID quantity       `json:"chainId"`
	Address common.Address `json:"address"`
	Nonce   quantity       `json:"nonce"`
	YParity quantity       `json:"yParity"`
	V       quantity       `json:"v"`
	R       quantity       `json:"r"`
	S       quantity       `json:"s"`
}

// rpcReceipt is a transaction receipt as nodes tell it. The members that no
// root commits to (from, to, contractAddress, fees) are left out on purpose.
type rpcReceipt struct {
	Type              quantity      `json:"type"`
	TransactionHash   *common.Hash  `json:"transactionHash"`
	TransactionIndex  quantity      `json:"transactionIndex"`
	BlockHash         *common.Hash  `json:"blockHash"`
	BlockNumber       quantity      `json:"blockNumber"`
	Status            quantity      `json:"status"`
	Root              blob          `json:"root"` // before Byzantium, instead of status
	GasUsed           quantity      `json:"gasUsed"`
	CumulativeGasUsed quantity      `json:"cumulativeGasUsed"`
	Logs              array[rpcLog] `json:"logs"`

	// OP stack deposits (0x7e).
	DepositNonce          quantity `json:"depositNonce"`
	DepositReceiptVersion quantity `json:"depositReceiptVersion"`
}

type rpcLog struct {
	Address common.Address `json:"address"`
	Topics  []common.Hash  `json:"topics"`
	Data    blob           `json:"data"`
}

// rpcHeader is a block header as nodes tell it: what its hash commits to.
type rpcHeader struct {
	Hash             *common.Hash    `json:"hash"`
	ParentHash       *common.Hash    `json:"parentHash"`
	UncleHash        *common.Hash    `json:"sha3Uncles"`
	Miner            *common.Address `json:"miner"`
	StateRoot        *common.Hash    `json:"stateRoot"`
	TransactionsRoot *common.Hash    `json:"transactionsRoot"`
	ReceiptsRoot     *common.Hash    `json:"receiptsRoot"`
	LogsBloom        blob            `json:"logsBloom"`
	Difficulty       quantity        `json:"difficulty"`
	Number           quantity        `json:"number"`
	GasLimit         quantity        `json:"gasLimit"`
	GasUsed          quantity        `json:"gasUsed"`
	Timestamp        quantity        `json:"timestamp"`
	ExtraData        blob            `json:"extraData"`
	MixHash          *common.Hash    `json:"mixHash"`
	Nonce            blob            `json:"nonce"`

	BaseFeePerGas         quantity     `json:"baseFeePerGas"`
	WithdrawalsRoot       *common.Hash `json:"withdrawalsRoot"`
	BlobGasUsed           quantity     `json:"blobGasUsed"`
	ExcessBlobGas         quantity     `json:"excessBlobGas"`
	ParentBeaconBlockRoot *common.Hash `json:"parentBeaconBlockRoot"`
	RequestsHash          *common.Hash `json:"requestsHash"`
	BlockAccessListHash   *common.Hash `json:"blockAccessListHash"`
	SlotNumber            quantity     `json:"slotNumber"`
}

// rpcBlock is a block with all its transactions.
type rpcBlock struct {
	rpcHeader
	Transactions array[rpcTransaction] `json:"transactions"`
}

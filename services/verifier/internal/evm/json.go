package evm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"reflect"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Quantity is a JSON-RPC number ("0x1f") as the big-endian bytes that RLP
// wants: no leading zero byte, so zero is empty. nil means absent. At most 256 bits.
type Quantity []byte

// UnmarshalJSON reads "0x" and hexadecimal digits; null is absent. Leading zeros and a bare "0x" are
// accepted, because some nodes write them; the hashes catch a wrong value.
func (q *Quantity) UnmarshalJSON(text []byte) error {
	digits, err := hexDigits(text)
	if digits == nil {
		*q = nil
		return err
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) > 64 {
		return errHex
	}
	even := append(make([]byte, 0, 65), "0"[:len(digits)%2]...)
	return decodeHex((*[]byte)(q), append(even, digits...))
}

// Uint64 returns the value; ok is false when it is absent or does not fit.
func (q Quantity) Uint64() (value uint64, ok bool) {
	if q == nil || len(q) > 8 {
		return 0, false
	}
	for _, b := range q {
		value = value<<8 | uint64(b)
	}
	return value, true
}

// committed returns the value that hashed bytes with the quantity in them commit to:
// an absent one is encoded as zero is, and no hash distinguishes the two. What is
// signed must not depend on which of them a node reports.
func (q Quantity) committed() (value uint64, ok bool) {
	if q == nil {
		return 0, true
	}
	return q.Uint64()
}

// Is reports whether the quantity is present and equals value.
func (q Quantity) Is(value uint64) bool {
	got, ok := q.Uint64()
	return ok && got == value
}

// Data is JSON-RPC data ("0x" and whole bytes); nil means absent.
type Data []byte

// UnmarshalJSON reads "0x" and an even number of hexadecimal digits; null is absent.
func (b *Data) UnmarshalJSON(text []byte) error {
	digits, err := hexDigits(text)
	if digits == nil {
		*b = nil
		return err
	}
	return decodeHex((*[]byte)(b), digits)
}

var errHex = errors.New("not hexadecimal data, or a number above 256 bits")

// hexDigits strips the quotes and the 0x of a JSON string; null is nil.
func hexDigits(text []byte) ([]byte, error) {
	n := len(text)
	switch {
	case string(text) == "null":
		return nil, nil
	case n < 4 || text[0] != '"' || text[n-1] != '"' || text[1] != '0' || (text[2] != 'x' && text[2] != 'X'):
		return nil, errHex
	default:
		return text[3 : n-1], nil
	}
}

func decodeHex(into *[]byte, digits []byte) error {
	out := make([]byte, len(digits)/2)
	if _, err := hex.Decode(out, digits); err != nil {
		return errHex
	}
	*into = out
	return nil
}

// Transaction is a transaction as nodes report it, with the members of every type that can be
// encoded. Absent members are nil, IsSystemTx is false.
type Transaction struct {
	Type             Quantity     `json:"type"`
	Hash             *common.Hash `json:"hash"`
	BlockHash        *common.Hash `json:"blockHash"`
	BlockNumber      Quantity     `json:"blockNumber"`
	TransactionIndex Quantity     `json:"transactionIndex"`

	ChainID              Quantity            `json:"chainId"`
	Nonce                Quantity            `json:"nonce"`
	GasPrice             Quantity            `json:"gasPrice"`
	MaxPriorityFeePerGas Quantity            `json:"maxPriorityFeePerGas"`
	MaxFeePerGas         Quantity            `json:"maxFeePerGas"`
	Gas                  Quantity            `json:"gas"`
	From                 *common.Address     `json:"from"`
	To                   *common.Address     `json:"to"`
	Value                Quantity            `json:"value"`
	Input                Data                `json:"input"`
	AccessList           list[accessEntry]   `json:"accessList"`
	MaxFeePerBlobGas     Quantity            `json:"maxFeePerBlobGas"`
	BlobVersionedHashes  []common.Hash       `json:"blobVersionedHashes"`
	AuthorizationList    list[authorization] `json:"authorizationList"`
	V                    Quantity            `json:"v"`
	R                    Quantity            `json:"r"`
	S                    Quantity            `json:"s"`
	YParity              Quantity            `json:"yParity"`

	// OP stack deposits (0x7e).
	SourceHash *common.Hash `json:"sourceHash"`
	Mint       Quantity     `json:"mint"`
	IsSystemTx bool         `json:"isSystemTx"`

	// Arbitrum (0x64 to 0x6a).
	RequestID           *common.Hash    `json:"requestId"`
	TicketID            *common.Hash    `json:"ticketId"`
	MaxRefund           Quantity        `json:"maxRefund"`
	SubmissionFeeRefund Quantity        `json:"submissionFeeRefund"`
	RefundTo            *common.Address `json:"refundTo"`
	L1BaseFee           Quantity        `json:"l1BaseFee"`
	DepositValue        Quantity        `json:"depositValue"`
	RetryTo             *common.Address `json:"retryTo"`
	RetryValue          Quantity        `json:"retryValue"`
	RetryData           Data            `json:"retryData"`
	Beneficiary         *common.Address `json:"beneficiary"`
	MaxSubmissionFee    Quantity        `json:"maxSubmissionFee"`

	raw []byte // of an unknown type: its consensus bytes, once they are set
}

type accessEntry struct {
	Address     common.Address `json:"address"`
	StorageKeys []common.Hash  `json:"storageKeys"`
}

// authorization is an element of the list in an EIP-7702 transaction; older nodes report yParity as v.
type authorization struct {
	ChainID Quantity       `json:"chainId"`
	Address common.Address `json:"address"`
	Nonce   Quantity       `json:"nonce"`
	YParity Quantity       `json:"yParity"`
	V       Quantity       `json:"v"`
	R       Quantity       `json:"r"`
	S       Quantity       `json:"s"`
}

// EncodeRLP implements rlp.Encoder.
func (a *authorization) EncodeRLP(w io.Writer) error {
	parity := a.YParity
	if parity == nil {
		parity = a.V
	}
	return rlp.Encode(w, []any{a.ChainID, a.Address, a.Nonce, parity, a.R, a.S})
}

// Receipt is a transaction receipt as nodes report it. From, to, contractAddress and the fees,
// which no root commits to, are left out on purpose.
type Receipt struct {
	Type              Quantity       `json:"type"`
	TransactionHash   *common.Hash   `json:"transactionHash"`
	TransactionIndex  Quantity       `json:"transactionIndex"`
	BlockHash         *common.Hash   `json:"blockHash"`
	BlockNumber       Quantity       `json:"blockNumber"`
	Status            Quantity       `json:"status"`
	Root              Data           `json:"root"` // before Byzantium, instead of status
	GasUsed           Quantity       `json:"gasUsed"`
	CumulativeGasUsed Quantity       `json:"cumulativeGasUsed"`
	Logs              list[logEntry] `json:"logs"`

	// OP stack deposits (0x7e).
	DepositNonce          Quantity `json:"depositNonce"`
	DepositReceiptVersion Quantity `json:"depositReceiptVersion"`

	raw []byte // of a transaction of an unknown type: its consensus bytes, once they are set
}

type logEntry struct {
	Address common.Address `json:"address"`
	Topics  []common.Hash  `json:"topics"`
	Data    Data           `json:"data"`
}

// Header is a block header as nodes report it: its hash, and what that commits to.
type Header struct {
	Hash             *common.Hash    `json:"hash"`
	ParentHash       *common.Hash    `json:"parentHash"`
	UncleHash        *common.Hash    `json:"sha3Uncles"`
	Miner            *common.Address `json:"miner"`
	StateRoot        *common.Hash    `json:"stateRoot"`
	TransactionsRoot *common.Hash    `json:"transactionsRoot"`
	ReceiptsRoot     *common.Hash    `json:"receiptsRoot"`
	LogsBloom        Data            `json:"logsBloom"`
	Difficulty       Quantity        `json:"difficulty"`
	Number           Quantity        `json:"number"`
	GasLimit         Quantity        `json:"gasLimit"`
	GasUsed          Quantity        `json:"gasUsed"`
	Timestamp        Quantity        `json:"timestamp"`
	ExtraData        Data            `json:"extraData"`
	MixHash          *common.Hash    `json:"mixHash"`
	Nonce            Data            `json:"nonce"`

	BaseFeePerGas         Quantity     `json:"baseFeePerGas"`
	WithdrawalsRoot       *common.Hash `json:"withdrawalsRoot"`
	BlobGasUsed           Quantity     `json:"blobGasUsed"`
	ExcessBlobGas         Quantity     `json:"excessBlobGas"`
	ParentBeaconBlockRoot *common.Hash `json:"parentBeaconBlockRoot"`
	RequestsHash          *common.Hash `json:"requestsHash"`
	BlockAccessListHash   *common.Hash `json:"blockAccessListHash"`
	SlotNumber            Quantity     `json:"slotNumber"`
}

// Block is a block with all its transactions.
type Block struct {
	Header
	Transactions list[Transaction] `json:"transactions"`
}

// Receipts are the receipts of a block.
type Receipts = list[Receipt]

// Decode decodes what a node returned. Unknown members are skipped; what matters is
// compared with hashes afterwards.
func Decode(data []byte, into any) error {
	return json.Unmarshal(data, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// list is a JSON array of objects. The memory budget of chain/rpc counts text, so what is decoded must not
// outgrow it: "{}" and a comma are three bytes, and would be a transaction of over 700. An element
// whose text is below half of its own size in memory is refused; real ones hold hashes and
// addresses, which take more.
type list[T any] []T

var errSparse = errors.New("element lacks most of its members")

// UnmarshalJSONFrom reads an array, or null as none.
func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*l = nil
	opening, err := d.ReadToken()
	if err != nil || opening.Kind() == 'n' {
		return err
	}
	if opening.Kind() != '[' {
		return errors.New("not an array")
	}
	least := int64(reflect.TypeFor[T]().Size() / 2)
	for d.PeekKind() != ']' {
		start := d.InputOffset()
		var element T
		if err := json.UnmarshalDecode(d, &element); err != nil {
			return err
		}
		if d.InputOffset()-start < least {
			return errSparse
		}
		*l = append(*l, element)
	}
	_, err = d.ReadToken()
	return err
}

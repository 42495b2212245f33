package evm

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// The transaction types that can be encoded (EIP-2718 type bytes).
const (
	legacyType     = 0x00
	accessListType = 0x01 // EIP-2930
	dynamicFeeType = 0x02 // EIP-1559
	blobType       = 0x03 // EIP-4844
	setCodeType    = 0x04 // EIP-7702

	arbDepositType         = 0x64 // Arbitrum: ETH deposited from L1
	arbUnsignedType        = 0x65 // Arbitrum: call from an L1 account
	arbContractType        = 0x66 // Arbitrum: call from an L1 contract
	arbRetryType           = 0x68 // Arbitrum: redemption of a retryable ticket
	arbSubmitRetryableType = 0x69 // Arbitrum: creation of a retryable ticket
	arbInternalType        = 0x6a // Arbitrum: the node's own bookkeeping

	opDepositType = 0x7e // OP stack: deposited from L1, or the system itself
)

// Accounts that Arbitrum's own transaction types imply.
var (
	arbOSAddress          = common.HexToAddress("0x00000000000000000000000000000000000a4b05")
	arbRetryableTxAddress = common.HexToAddress("0x000000000000000000000000000000000000006e")
)

// kind is the type byte. A missing type is legacy: old nodes leave it out.
func (t *Transaction) kind() (byte, error) {
	if t.Type == nil {
		return legacyType, nil
	}
	value, ok := t.Type.Uint64()
	if !ok || value > 0x7f {
		return 0, fmt.Errorf("type 0x%x: %w", []byte(t.Type), chain.ErrUnsupportedType)
	}
	return byte(value), nil
}

// Encode gives the bytes whose Keccak-256 is the transaction's hash and which
// are the values of the transactions trie.
func (t *Transaction) Encode() ([]byte, error) {
	kind, err := t.kind()
	if err != nil {
		return nil, err
	}
	body, ok := t.body(kind)
	if !ok {
		return nil, fmt.Errorf("type 0x%02x: %w", kind, chain.ErrUnsupportedType)
	}
	if !t.complete(kind) {
		return nil, fmt.Errorf("transaction lacks members of its type: %w", chain.ErrInconsistent)
	}
	e := newEncoder()
	e.list(func() {
		body(e)
		if kind <= setCodeType {
			e.bytes(t.parity(kind), t.R, t.S)
		}
	})
	return e.finish(kind), nil
}

// parity is the first signature value: v for legacy, yParity for typed
// transactions, which older nodes tell as v.
func (t *Transaction) parity(kind byte) Quantity {
	if kind != legacyType && t.YParity != nil {
		return t.YParity
	}
	return t.V
}

// complete tells whether the fixed-size members that the type's encoding needs
// are there; absent numbers and data encode as empty, and the hash judges them.
func (t *Transaction) complete(kind byte) bool {
	switch kind {
	case opDepositType:
		return t.SourceHash != nil && t.From != nil
	case arbDepositType:
		return t.RequestID != nil && t.From != nil && t.To != nil
	case arbUnsignedType:
		return t.From != nil
	case arbContractType:
		return t.RequestID != nil && t.From != nil
	case arbRetryType:
		return t.From != nil && t.TicketID != nil && t.RefundTo != nil
	case arbSubmitRetryableType:
		return t.RequestID != nil && t.From != nil && t.Beneficiary != nil && t.RefundTo != nil
	default:
		return true
	}
}

// body gives the writer of a type's fields without the signature; false for a
// type that is not known.
func (t *Transaction) body(kind byte) (func(encoder), bool) {
	switch kind {
	case legacyType:
		return t.legacyFields, true
	case accessListType, dynamicFeeType, blobType, setCodeType:
		return func(e encoder) { t.typedFields(e, kind) }, true
	case opDepositType:
		return t.opDepositFields, true
	case arbDepositType, arbUnsignedType, arbContractType, arbRetryType, arbSubmitRetryableType, arbInternalType:
		return func(e encoder) { t.arbitrumFields(e, kind) }, true
	default:
		return nil, false
	}
}

func (t *Transaction) legacyFields(e encoder) {
	e.bytes(t.Nonce, t.GasPrice, t.Gas)
	e.address(t.To)
	e.bytes(t.Value, t.Input)
}

func (t *Transaction) typedFields(e encoder, kind byte) {
	e.bytes(t.ChainID, t.Nonce)
	if kind == accessListType {
		e.bytes(t.GasPrice)
	} else {
		e.bytes(t.MaxPriorityFeePerGas, t.MaxFeePerGas)
	}
	e.bytes(t.Gas)
	e.address(t.To)
	e.bytes(t.Value, t.Input)
	e.list(func() { t.accessList(e) })
	switch kind {
	case blobType:
		e.bytes(t.MaxFeePerBlobGas)
		e.list(func() { hashes(e, t.BlobVersionedHashes) })
	case setCodeType:
		e.list(func() { t.authorizations(e) })
	}
}

func (t *Transaction) accessList(e encoder) {
	for i := range t.AccessList {
		entry := &t.AccessList[i]
		e.list(func() {
			e.address(&entry.Address)
			e.list(func() { hashes(e, entry.StorageKeys) })
		})
	}
}

func (t *Transaction) authorizations(e encoder) {
	for i := range t.AuthorizationList {
		auth := &t.AuthorizationList[i]
		parity := auth.YParity
		if parity == nil {
			parity = auth.V
		}
		e.list(func() {
			e.bytes(auth.ChainID)
			e.address(&auth.Address)
			e.bytes(auth.Nonce, parity, auth.R, auth.S)
		})
	}
}

func hashes(e encoder, list []common.Hash) {
	for i := range list {
		e.hash(&list[i])
	}
}

// opDepositFields follows the OP stack specification of deposits.
func (t *Transaction) opDepositFields(e encoder) {
	e.hash(t.SourceHash)
	e.address(t.From)
	e.address(t.To)
	e.bytes(t.Mint, t.Value, t.Gas)
	e.WriteBool(t.IsSystemTx)
	e.bytes(t.Input)
}

// arbitrumFields follows the field order of Nitro's transaction types.
func (t *Transaction) arbitrumFields(e encoder, kind byte) {
	e.bytes(t.ChainID)
	switch kind {
	case arbDepositType:
		e.hash(t.RequestID)
		e.address(t.From)
		e.address(t.To)
		e.bytes(t.Value)
	case arbUnsignedType:
		e.address(t.From)
		e.bytes(t.Nonce)
		t.arbitrumCall(e)
	case arbContractType:
		e.hash(t.RequestID)
		e.address(t.From)
		t.arbitrumCall(e)
	case arbRetryType:
		e.bytes(t.Nonce)
		e.address(t.From)
		t.arbitrumCall(e)
		e.hash(t.TicketID)
		e.address(t.RefundTo)
		e.bytes(t.MaxRefund, t.SubmissionFeeRefund)
	case arbSubmitRetryableType:
		e.hash(t.RequestID)
		e.address(t.From)
		e.bytes(t.L1BaseFee, t.DepositValue, t.MaxFeePerGas, t.Gas)
		e.address(t.RetryTo)
		e.bytes(t.RetryValue)
		e.address(t.Beneficiary)
		e.bytes(t.MaxSubmissionFee)
		e.address(t.RefundTo)
		e.bytes(t.RetryData)
	case arbInternalType:
		e.bytes(t.Input)
	}
}

// arbitrumCall writes fee cap, gas, recipient, value and input.
func (t *Transaction) arbitrumCall(e encoder) {
	e.bytes(t.feeCap(), t.Gas)
	e.address(t.To)
	e.bytes(t.Value, t.Input)
}

// feeCap is told as maxFeePerGas; early nodes told it as gasPrice.
func (t *Transaction) feeCap() Quantity {
	if t.MaxFeePerGas != nil {
		return t.MaxFeePerGas
	}
	return t.GasPrice
}

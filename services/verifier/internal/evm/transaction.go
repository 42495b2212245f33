package evm

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

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

	opDepositType = 0x7e // OP stack: deposited from L1, or by the system itself
)

// Accounts that Arbitrum's own transaction types imply.
var (
	arbOSAddress          = chain.Address(common.HexToAddress("0x00000000000000000000000000000000000a4b05"))
	arbRetryableTxAddress = chain.Address(common.HexToAddress("0x000000000000000000000000000000000000006e"))
)

// kind returns the type byte: 0xff, which is no type, for a value that is none. A missing type is
// legacy: old nodes leave it out.
func (t *Transaction) kind() byte {
	if value, ok := t.Type.committed(); ok && value <= 0x7f {
		return byte(value)
	}
	return 0xff
}

// kindOf returns the type that a transaction's bytes have, which alone its hash commits to.
func kindOf(raw []byte) byte {
	switch {
	case len(raw) == 0:
		return 0xff
	case raw[0] >= 0xc0: // a list
		return legacyType
	default:
		return raw[0]
	}
}

// Encode returns the transaction's value in the transactions trie, whose Keccak-256 is its hash.
// chain.ErrUnsupportedType; chain.ErrInconsistent where the node left members out; chain.ErrIntegrity where its
// bytes are of another type.
func (t *Transaction) Encode() ([]byte, error) {
	if t.raw != nil {
		if isKnown(kindOf(t.raw)) {
			return nil, fmt.Errorf("type 0x%x is not that of the bytes: %w", []byte(t.Type), chain.ErrIntegrity)
		}
		return t.raw, nil
	}
	kind := t.kind()
	fields := t.fields(kind)
	if fields == nil {
		return nil, fmt.Errorf("type 0x%x: %w", []byte(t.Type), chain.ErrUnsupportedType)
	}
	// Absent numbers and data are encoded as empty, and checked by the hash.
	if slices.ContainsFunc(fields, isNilPointer) {
		return nil, fmt.Errorf("transaction lacks members of its type: %w", chain.ErrInconsistent)
	}
	if kind <= setCodeType {
		fields = append(fields, t.parity(kind), t.R, t.S)
	}
	return encode(kind, fields), nil
}

func isNilPointer(field any) bool {
	value := reflect.ValueOf(field)
	return value.Kind() == reflect.Pointer && value.IsNil()
}

// parity returns the first signature value: v for legacy, yParity for typed
// transactions, which older nodes report as v.
func (t *Transaction) parity(kind byte) Quantity {
	if kind != legacyType && t.YParity != nil {
		return t.YParity
	}
	return t.V
}

// fields returns the fields of a type without the signature, in the order of its encoding; nil for
// an unknown type. None of the pointers among them may be nil.
func (t *Transaction) fields(kind byte) []any {
	to := optional(t.To)
	switch kind {
	case legacyType:
		return []any{t.Nonce, t.GasPrice, t.Gas, to, t.Value, t.Input}
	case accessListType:
		return []any{t.ChainID, t.Nonce, t.GasPrice, t.Gas, to, t.Value, t.Input, t.AccessList}
	case dynamicFeeType:
		return []any{
			t.ChainID, t.Nonce, t.MaxPriorityFeePerGas, t.MaxFeePerGas, t.Gas, to, t.Value, t.Input, t.AccessList,
		}
	case blobType:
		return []any{
			t.ChainID, t.Nonce, t.MaxPriorityFeePerGas, t.MaxFeePerGas, t.Gas, to, t.Value, t.Input, t.AccessList,
			t.MaxFeePerBlobGas, t.BlobVersionedHashes,
		}
	case setCodeType:
		return []any{
			t.ChainID, t.Nonce, t.MaxPriorityFeePerGas, t.MaxFeePerGas, t.Gas, to, t.Value, t.Input, t.AccessList,
			t.AuthorizationList,
		}
	case opDepositType:
		return []any{t.SourceHash, t.From, to, t.Mint, t.Value, t.Gas, t.IsSystemTx, t.Input}
	case arbDepositType:
		return []any{t.ChainID, t.RequestID, t.From, t.To, t.Value}
	case arbUnsignedType:
		return []any{t.ChainID, t.From, t.Nonce, t.feeCap(), t.Gas, to, t.Value, t.Input}
	case arbContractType:
		return []any{t.ChainID, t.RequestID, t.From, t.feeCap(), t.Gas, to, t.Value, t.Input}
	case arbRetryType:
		return []any{
			t.ChainID, t.Nonce, t.From, t.feeCap(), t.Gas, to, t.Value, t.Input,
			t.TicketID, t.RefundTo, t.MaxRefund, t.SubmissionFeeRefund,
		}
	case arbSubmitRetryableType:
		return []any{
			t.ChainID, t.RequestID, t.From, t.L1BaseFee, t.DepositValue, t.MaxFeePerGas, t.Gas, optional(t.RetryTo),
			t.RetryValue,
			t.Beneficiary, t.MaxSubmissionFee, t.RefundTo, t.RetryData,
		}
	case arbInternalType:
		return []any{t.ChainID, t.Input}
	default:
		return nil
	}
}

// optional returns the bytes of an address; none for nil (contract creation).
func optional(a *common.Address) []byte {
	if a == nil {
		return nil
	}
	return a[:]
}

// feeCap returns what is reported as maxFeePerGas or, by early nodes, as gasPrice.
func (t *Transaction) feeCap() Quantity {
	if t.MaxFeePerGas != nil {
		return t.MaxFeePerGas
	}
	return t.GasPrice
}

// isKnown reports whether transactions of a type can be encoded and read.
func isKnown(kind byte) bool {
	return new(Transaction).fields(kind) != nil
}

// submitRetryableSelector is the call that Arbitrum derives from a retryable
// ticket's creation (0x69).
var submitRetryableSelector = chain.Selector{0xc9, 0xf9, 0x5d, 0x32}

// facts returns what is proven of the transaction, and what its sender can be
// recovered from: nil for a type without a signature. How each type is read is
// listed in pkg/receipt's documentation.
func (t *Transaction) facts(kind byte, r *Receipt) (chain.Transaction, *signed) {
	out := chain.Transaction{
		Type:         kind,
		SenderMethod: chain.SenderInPreimage,
		To:           (*chain.Address)(t.To),
		Value:        new(big.Int).SetBytes(t.Value),
		Nonce:        t.nonce(kind, r),
	}
	called := t.To != nil && kind != arbDepositType || kind == arbInternalType
	if called && len(t.Input) >= 4 {
		selector := chain.Selector(t.Input)
		out.Selector = &selector
	}
	switch {
	case kind <= setCodeType:
		out.SenderMethod = chain.SenderRecovered
		return out, t.signedParts(kind)
	case kind == arbInternalType:
		out.From, out.To, out.Value = arbOSAddress, &arbOSAddress, new(big.Int)
		return out, nil
	case kind == arbSubmitRetryableType:
		out.To, out.Selector, out.Value = &arbRetryableTxAddress, &submitRetryableSelector, new(big.Int)
	}
	out.From = chain.Address(*t.From)
	return out, nil
}

func (t *Transaction) nonce(kind byte, r *Receipt) *uint64 {
	number := t.Nonce
	switch kind {
	case opDepositType:
		if !r.canyonDeposit(kind) {
			return nil
		}
		number = r.DepositNonce
	case arbDepositType, arbContractType, arbSubmitRetryableType, arbInternalType:
		return nil
	}
	if value, ok := number.committed(); ok {
		return &value
	}
	return nil
}

// signed is what the sender is recovered from: the digest that was signed and
// the signature as 32 bytes R, 32 bytes S and the recovery bit.
type signed struct {
	digest    common.Hash
	signature [65]byte
}

// noRecoveryBit is in a signature's last byte when v is no recovery bit at all. No
// sender can be recovered from it.
const noRecoveryBit = 0xff

// sender recovers the sender. What the node reports of it plays no part in that. The
// transaction is proven before: where no sender can be recovered, the chain itself holds a
// transaction without a signature, as Optimism's old one does. chain.ErrUnsupportedType.
func (s *signed) sender() (chain.Address, error) {
	key, err := crypto.Ecrecover(s.digest[:], s.signature[:])
	if err != nil {
		return chain.Address{}, fmt.Errorf("recover the sender: %w", chain.ErrUnsupportedType)
	}
	return chain.Address(crypto.Keccak256(key[1:])[12:]), nil
}

// signedParts returns what was signed, for the types that carry a signature.
func (t *Transaction) signedParts(kind byte) *signed {
	fields, recovery := t.fields(kind), byte(noRecoveryBit)
	if kind == legacyType {
		var chainID []byte
		if recovery, chainID = splitLegacyV(t.V); chainID != nil { // EIP-155
			fields = append(fields, chainID, Quantity{}, Quantity{})
		}
	} else if bit, ok := t.parity(kind).committed(); ok && bit <= 1 {
		recovery = byte(bit)
	}
	s := &signed{digest: crypto.Keccak256Hash(encode(kind, fields))}
	copy(s.signature[32-len(t.R):32], t.R)
	copy(s.signature[64-len(t.S):64], t.S)
	s.signature[64] = recovery
	return s
}

// splitLegacyV reads the recovery bit and, from EIP-155 on, the chain id out of
// v: 27 + bit, or 35 + 2 × chain id + bit. Chain id 0 is empty but not nil: it was
// signed over.
func splitLegacyV(v Quantity) (bit byte, chainID []byte) {
	if v.Is(27) || v.Is(28) {
		return v[0] - 27, nil
	}
	value := new(big.Int).SetBytes(v)
	if value.Sub(value, big.NewInt(35)).Sign() < 0 {
		return noRecoveryBit, nil
	}
	bit = byte(value.Bit(0))
	return bit, value.Rsh(value, 1).Bytes()
}

// signedChainID returns the chain id that the transaction commits to, nil where it commits to none
// (unprotected legacy, OP stack deposits) or is of an unknown type.
func (t *Transaction) signedChainID() Quantity {
	switch kind := t.kind(); {
	case kind == opDepositType, !isKnown(kind):
		return nil
	case kind == legacyType:
		_, chainID := splitLegacyV(t.V)
		return chainID
	default:
		return t.ChainID
	}
}

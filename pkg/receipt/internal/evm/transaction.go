package evm

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// Transaction holds what a transaction's encoding commits to.
type Transaction struct {
	Hash    Hash     // Keccak-256 of the encoding
	Type    byte     // EIP-2718; 0 is legacy
	ChainID *big.Int // nil where the encoding has none: legacy without EIP-155, OP-stack deposits
	From    Address
	// Signed reports whether From was recovered from a signature. If not, the encoding
	// holds From, or the type fixes it.
	Signed   bool
	To       *Address // nil for a contract creation
	Value    *big.Int // wei
	Selector *[4]byte // nil for a creation, for input below 4 bytes and for an Arbitrum deposit
	Nonce    *uint64  // nil where the type has none
	// AccountNonce reports whether the nonce, here or in the receipt, counts the
	// sender's transactions, so that the address of a created contract follows from it.
	AccountNonce bool
}

// ErrUnsupportedType is a transaction type whose encoding is not known here.
var ErrUnsupportedType = errors.New("transaction type is not supported")

// Transaction types that are named here.
const (
	typeLegacy                  = 0x00
	typeArbitrumSubmitRetryable = 0x69
	typeArbitrumInternal        = 0x6a
	typeDeposit                 = 0x7e // OP stack
)

// layouts are the members of each type's payload, in their order. "to?" may be
// empty, which is a contract creation; "retry" is a nonce that counts the retries of
// one ticket. Where the last three are v (or the y parity), r and s, they are the
// sender's signature.
var layouts = map[byte][]string{
	typeLegacy: strings.Fields("nonce gasPrice gas to? value input v r s"),
	0x01:       strings.Fields("chainId nonce gasPrice gas to? value input accessList v r s"),      // EIP-2930
	0x02:       strings.Fields("chainId nonce gasTip gasFee gas to? value input accessList v r s"), // EIP-1559
	// EIP-4844, as blocks hold it: without the blobs.
	0x03: strings.Fields("chainId nonce gasTip gasFee gas to value input accessList blobFee blobHashes v r s"),
	0x04: strings.Fields("chainId nonce gasTip gasFee gas to value input accessList authorizations v r s"), // EIP-7702

	// Arbitrum Nitro, core/types/arb_types.go of its go-ethereum: deposit, unsigned,
	// contract, retry, submit retryable, internal.
	0x64: strings.Fields("chainId requestId from to value"),
	0x65: strings.Fields("chainId from nonce gasFee gas to? value input"),
	0x66: strings.Fields("chainId requestId from gasFee gas to? value input"),
	0x68: strings.Fields("chainId retry from gasFee gas to? value input ticketId refundTo maxRefund submissionFee"),
	typeArbitrumSubmitRetryable: strings.Fields(`chainId requestId from baseFee depositValue gasFee gas retryTo
		retryValue beneficiary maxSubmissionFee feeRefundTo retryData`),
	typeArbitrumInternal: strings.Fields("chainId input"),

	// OP stack, specs: protocol/deposits.md
	typeDeposit: strings.Fields("sourceHash from to? mint value gas isSystem input"),
}

// Addresses that types of Arbitrum fix instead of holding them.
var (
	arbosAddress     = Address{17: 0x0a, 18: 0x4b, 19: 0x05} // ArbOS itself
	retryableAddress = Address{19: 0x6e}                     // ArbRetryableTx
)

// submitRetryable is the selector of the call that the type 0x69 stands for:
// submitRetryable(bytes32,uint256,uint256,uint256,uint256,uint64,uint256,address,address,address,bytes).
var submitRetryable = [4]byte{0xc9, 0xf9, 0x5d, 0x32}

// DecodeTransaction reads a transaction as its trie holds it and recovers the sender where the type
// has a signature. ErrUnsupportedType.
func DecodeTransaction(raw []byte) (Transaction, error) {
	kind, payload, err := splitType(raw)
	if err != nil {
		return Transaction{}, err
	}
	layout, ok := layouts[kind]
	if !ok {
		return Transaction{}, fmt.Errorf("%w: 0x%x", ErrUnsupportedType, kind)
	}
	m, err := decodeList(payload, len(layout))
	if err != nil {
		return Transaction{}, fmt.Errorf("transaction: %w", err)
	}
	if len(m.Items) != len(layout) {
		return Transaction{}, fmt.Errorf("transaction of type 0x%x has %d members, not %d", kind, len(m.Items),
			len(layout))
	}
	tx := Transaction{Hash: Keccak256(raw), Type: kind, Value: new(big.Int)}
	switch kind { // what the type fixes instead of holding it
	case typeArbitrumSubmitRetryable:
		tx.To, tx.Selector = &retryableAddress, &submitRetryable
	case typeArbitrumInternal:
		tx.From, tx.To = arbosAddress, &arbosAddress
	case typeDeposit:
		tx.AccountNonce = true // the nonce is in the receipt, from Canyon on
	}
	for at, name := range layout {
		tx.read(&m, at, name)
	}
	if m.Err != nil {
		return Transaction{}, fmt.Errorf("transaction: %w", m.Err)
	}
	if layout[len(layout)-1] == "s" {
		if err := tx.recoverSender(&m); err != nil {
			return Transaction{}, err
		}
	}
	return tx, nil
}

func (tx *Transaction) read(m *rlp.Members, at int, name string) {
	switch name {
	case "chainId":
		tx.ChainID = m.Big(at)
	case "nonce", "retry":
		nonce := m.Uint64(at)
		tx.Nonce, tx.AccountNonce = &nonce, name == "nonce"
	case "from":
		m.Fixed(at, tx.From[:])
	case "to", "to?":
		if item := m.Items[at]; name == "to" || item.List || len(item.Content) > 0 {
			tx.To = new(Address)
			m.Fixed(at, tx.To[:])
		}
	case "value":
		tx.Value = m.Big(at)
	case "input":
		if tx.To == nil {
			return
		}
		if input := m.Bytes(at); len(input) >= 4 {
			selector := [4]byte(input)
			tx.Selector = &selector
		}
	}
}

var errSignature = errors.New("no sender follows from the signature")

// recoverSender sets From to the sender that the signature, the last three members,
// proves, and the ChainID of a legacy transaction that has one. An s in the upper half of
// the curve's order is accepted, because blocks before Homestead have it.
func (tx *Transaction) recoverSender(m *rlp.Members) error {
	at := len(m.Items) - 3
	parity, r, s := m.Big(at), m.Big(at+1), m.Big(at+2)
	if m.Err != nil {
		return fmt.Errorf("signature: %w", m.Err)
	}
	var signed []byte // the members before the signature
	for _, member := range m.Items[:at] {
		signed = append(signed, member.Raw...)
	}
	prefix := []byte{tx.Type}
	if tx.Type == typeLegacy {
		prefix = nil
		// v is chain id * 2 + 35 or 36, and the chain id is signed (EIP-155)
		if base := big.NewInt(35); parity.Cmp(base) >= 0 {
			parity.Sub(parity, base)
			tx.ChainID = new(big.Int).Rsh(parity, 1)
			parity.And(parity, big.NewInt(1))
			signed = rlp.AppendUint(rlp.AppendUint(rlp.AppendString(signed, tx.ChainID.Bytes()), 0), 0)
		} else {
			parity.Sub(parity, big.NewInt(27))
		}
	}
	if !parity.IsUint64() || parity.Uint64() > 1 {
		return errSignature
	}
	digest := Keccak256(rlp.AppendList(prefix, signed))
	var compact [65]byte
	compact[0] = 27 + byte(parity.Uint64())
	r.FillBytes(compact[1:33])
	s.FillBytes(compact[33:])
	public, _, err := ecdsa.RecoverCompact(compact[:], digest[:])
	if err != nil {
		return fmt.Errorf("%w: %w", errSignature, err)
	}
	key := Keccak256(public.SerializeUncompressed()[1:])
	copy(tx.From[:], key[12:])
	tx.Signed = true
	return nil
}

// splitType returns the type and the payload of an EIP-2718 envelope. A legacy transaction
// or receipt has none: it is a list, which begins with 0xc0 or above, and its type is 0.
func splitType(raw []byte) (kind byte, payload []byte, err error) {
	switch {
	case len(raw) == 0:
		return 0, nil, errors.New("no bytes")
	case raw[0] >= 0xc0:
		return 0, raw, nil
	case raw[0] == 0 || raw[0] > 0x7f:
		return 0, nil, fmt.Errorf("%w: 0x%x", ErrUnsupportedType, raw[0])
	default:
		return raw[0], raw[1:], nil
	}
}

// ContractAddress returns the address of the contract that a creation makes: the end of the hash of
// the sender and its nonce (yellow paper, section 7).
func ContractAddress(from Address, nonce uint64) (a Address) {
	items := rlp.AppendUint(rlp.AppendString(nil, from[:]), nonce)
	digest := Keccak256(rlp.AppendList(nil, items))
	copy(a[:], digest[12:])
	return a
}

package evm

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// TestTransaction_WithoutASignatureIsNotRead: Optimism's old chain has legacy
// transactions from L1 whose signature is zero. The block around one is proven,
// and so are the others in it.
func TestTransaction_WithoutASignatureIsNotRead(t *testing.T) {
	m := blockOf(t, 150)
	unsigned := &m.Block.Transactions[2]
	unsigned.Type, unsigned.V, unsigned.R, unsigned.S = Quantity{}, Quantity{}, Quantity{}, Quantity{}
	unsigned.GasPrice, m.Receipts[2].Type = Quantity{}, nil
	seal(t, m)
	b, err := m.Prove(18_000_000, *m.Block.Hash, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Snapshot(1); err != nil {
		t.Errorf("its neighbour: %v", err)
	}
	if _, err := b.Snapshot(2); !errors.Is(err, chain.ErrUnsupportedType) {
		t.Errorf("got %v", err)
	}
}

// TestEncode_RawBytesOfAKnownTypeAreRefused: the type that is told of them is a false one.
func TestEncode_RawBytesOfAKnownTypeAreRefused(t *testing.T) {
	for raw, want := range map[string]error{
		"\x02\xc0": chain.ErrIntegrity, "\x7e\xc0": chain.ErrIntegrity, "\xc0": chain.ErrIntegrity, "\x7b\xc0": nil, "": nil,
	} {
		if _, err := (&Transaction{Type: Quantity{0x7b}, raw: []byte(raw)}).Encode(); !errors.Is(err, want) {
			t.Errorf("%x: %v, want %v", raw, err, want)
		}
	}
}

// TestReceipt_OfTheUsualFormNeedsNoRawBytes, whatever its type.
func TestReceipt_OfTheUsualFormNeedsNoRawBytes(t *testing.T) {
	m := blockOf(t, 20)
	bytes := append([]byte{0x7b}, []byte("whatever it is")...)
	m.Block.Transactions[7] = Transaction{Type: Quantity{0x7b}, raw: bytes}
	m.Receipts[7].Type = Quantity{0x7b}
	seal(t, m)
	m.Block.Transactions[7].raw = nil
	if _, err := m.Prove(18_000_000, *m.Block.Hash, 1); !errors.Is(err, chain.ErrUnsupportedType) {
		t.Errorf("without the bytes: %v", err)
	}
	m.SetRawTransaction(7, bytes)
	b, err := m.Prove(18_000_000, *m.Block.Hash, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := b.Snapshot(8); err != nil || s.Outcome.GasUsed != 21000 {
		t.Errorf("its neighbour: %+v, %v", s.Outcome, err)
	}
	if _, err := b.Snapshot(7); !errors.Is(err, chain.ErrUnsupportedType) {
		t.Errorf("itself: %v", err)
	}
}

// TestProve_NoTransactionThatTheBlockDoesNotHold: its hash is right, but no root commits to it.
func TestProve_NoTransactionThatTheBlockDoesNotHold(t *testing.T) {
	m := blockOf(t, 3)
	foreign := &m.Block.Transactions[1]
	foreign.Value = quantityOf(1)
	value, err := foreign.Encode()
	if err != nil {
		t.Fatal(err)
	}
	hash := crypto.Keccak256Hash(value)
	foreign.Hash, m.Receipts[1].TransactionHash = &hash, &hash
	if _, err := m.Prove(18_000_000, *m.Block.Hash, 1); !errors.Is(err, chain.ErrIntegrity) {
		t.Errorf("got %v", err)
	}
}

func TestProve_NoTransactionUnderAnotherHash(t *testing.T) {
	m := blockOf(t, 3)
	other := common.Hash{1}
	m.Block.Transactions[1].Hash, m.Receipts[1].TransactionHash = &other, &other
	if _, err := m.Prove(18_000_000, *m.Block.Hash, 1); !errors.Is(err, chain.ErrIntegrity) {
		t.Errorf("got %v", err)
	}
}

func TestProve_NoBlockOfAnotherChain(t *testing.T) {
	m := blockOf(t, 3)
	if _, err := m.Prove(18_000_000, *m.Block.Hash, 8453); !errors.Is(err, chain.ErrWrongChain) {
		t.Errorf("got %v", err)
	}
}

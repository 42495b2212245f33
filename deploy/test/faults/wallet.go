package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/buyer"
)

// refusesTransactions is a contract wallet (ERC-1271) that holds every signature
// for good in a simulation, where gas has no price, and for bad in a transaction.
//
//	GASPRICE ISZERO PUSH4 0x1626ba7e PUSH1 224 SHL MUL PUSH1 0 MSTORE PUSH1 32 PUSH1 0 RETURN
const refusesTransactions = "3a15631626ba7e60e01b0260005260206000f3"

// deploys is the code that makes a contract of the code behind it, of 19 bytes.
//
//	PUSH1 19 DUP1 PUSH1 11 PUSH1 0 CODECOPY PUSH1 0 RETURN
const deploys = "601380600b6000396000f3"

// wallet sends transactions of an account with ether.
type wallet struct {
	*buyer.Buyer
	chain chain
	id    uint64 // of the chain
}

func newWallet(ctx context.Context, c chain) (wallet, error) {
	b, err := buyer.New(layout.PayerKey)
	if err != nil {
		return wallet{}, err
	}
	var id string
	if err := c.call(ctx, &id, "eth_chainId"); err != nil {
		return wallet{}, err
	}
	w := wallet{Buyer: b, chain: c}
	w.id, err = number(id)
	return w, err
}

// revertingPayers lets the accounts of some buyers be wallets that refuse
// transactions (EIP-7702). They sign payments with plain keys, which recover to
// them, every simulation of such a payment says that it is good, and every
// transfer reverts.
func (w wallet) revertingPayers(ctx context.Context, payers []*buyer.Buyer) error {
	nonce, err := w.nonce(ctx)
	if err != nil {
		return err
	}
	created, err := w.send(ctx, 2, nonce, nil, unhex(deploys+refusesTransactions), nil)
	if err != nil {
		return err
	}
	if created.Contract == "" {
		return errors.New("the wallet's contract was not made")
	}
	var tuples []any
	for _, payer := range payers {
		tuple := []any{integer(w.id), unhex(created.Contract), integer(0)}
		tuples = append(tuples, append(tuple, signature(payer, append([]byte{5}, rlp(tuple)...))...))
	}
	_, err = w.send(ctx, 4, nonce+1, unhex(w.Address), nil, tuples)
	return err
}

func (w wallet) nonce(ctx context.Context) (uint64, error) {
	var count string
	if err := w.chain.call(ctx, &count, "eth_getTransactionCount", w.Address, "pending"); err != nil {
		return 0, err
	}
	return number(count)
}

// transaction is what is read of one that is in a block.
type transaction struct {
	Status   string `json:"status"`
	Contract string `json:"contractAddress"`
}

// send sends a transaction of type 2, or of type 4 with its authorizations, and
// returns when it is in a block.
func (w wallet) send(ctx context.Context, kind byte, nonce uint64, to, data []byte, authorizations []any) (done transaction, err error) {
	fields := []any{integer(w.id), integer(nonce), integer(1e9), integer(100e9), integer(3_000_000), to, integer(0), data, []any{}}
	if kind == 4 {
		fields = append(fields, authorizations)
	}
	fields = append(fields, signature(w.Buyer, append([]byte{kind}, rlp(fields)...))...)
	var hash string
	if err := w.chain.call(ctx, &hash, "eth_sendRawTransaction", "0x"+hex.EncodeToString(append([]byte{kind}, rlp(fields)...))); err != nil {
		return done, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err = until(ctx, func(ctx context.Context) error {
		if err := w.chain.call(ctx, &done, "eth_getTransactionReceipt", hash); err != nil || done.Status == "" {
			return errors.Join(err, fmt.Errorf("%s is in no block yet", hash))
		}
		return nil
	})
	if err == nil && done.Status != "0x1" {
		err = fmt.Errorf("%s reverted", hash)
	}
	return done, err
}

// signature returns parity, r and s of what is signed.
func signature(by *buyer.Buyer, signed []byte) []any {
	parity, r, s := by.SignRaw(signed)
	return []any{integer(uint64(parity)), trim(r), trim(s)}
}

// rlp encodes byte strings, nil among them, and lists of them.
func rlp(v any) []byte {
	switch v := v.(type) {
	case []byte:
		if len(v) == 1 && v[0] < 0x80 {
			return v
		}
		return append(prefix(0x80, len(v)), v...)
	case []any:
		var body []byte
		for _, each := range v {
			body = append(body, rlp(each)...)
		}
		return append(prefix(0xc0, len(body)), body...)
	}
	panic(fmt.Sprintf("RLP has no %T", v))
}

func prefix(of byte, size int) []byte {
	if size < 56 {
		return []byte{of + byte(size)}
	}
	digits := integer(uint64(size))
	return slices.Concat([]byte{of + 55 + byte(len(digits))}, digits)
}

// integer is a number without leading zeros.
func integer(n uint64) []byte { return new(big.Int).SetUint64(n).Bytes() }

func trim(word []byte) []byte { return new(big.Int).SetBytes(word).Bytes() }

// unhex reads hexadecimal digits of this program's own.
func unhex(text string) []byte {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		panic(err)
	}
	return raw
}

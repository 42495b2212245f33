package devnet_test

import (
	"crypto/ecdsa"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

// grant are the first six arguments of a transfer by authorization.
type grant struct {
	from, to             common.Address
	value, after, before *big.Int
	nonce                [32]byte
}

func granted(nonce byte) grant {
	return grant{devnet.PayerAddress, someone, big.NewInt(10000), new(big.Int), big.NewInt(time.Now().Add(time.Hour).Unix()), [32]byte{nonce}}
}

func (g grant) args(more ...any) []any {
	return append([]any{g.from, g.to, g.value, g.after, g.before, g.nonce}, more...)
}

func (g grant) message() apitypes.TypedDataMessage {
	return apitypes.TypedDataMessage{
		"from": g.from.Hex(), "to": g.to.Hex(), "value": g.value.String(),
		"validAfter": g.after.String(), "validBefore": g.before.String(), "nonce": g.nonce[:],
	}
}

// split returns a signature as the older form of the calls takes it.
func split(signature []byte) []any {
	return []any{signature[64], [32]byte(signature[:32]), [32]byte(signature[32:64])}
}

const transferBy = "transferWithAuthorization"

func TestToken_AnAuthorizationMovesTheMoneyOnce(t *testing.T) {
	l := openLedger(t)
	for i, form := range []func([]byte) []any{func(s []byte) []any { return []any{s} }, split} {
		g := granted(byte(i))
		args := g.args(form(l.sign(l.key, "TransferWithAuthorization", g.message()))...)
		if events := l.send(transferBy, args...); events != "AuthorizationUsed Transfer" {
			t.Errorf("events: %s", events)
		}
		if l.view("authorizationState", g.from, g.nonce).Sign() == 0 {
			t.Error("the nonce is not spent")
		}
		l.reverts("authorization is used or canceled", transferBy, args...)
	}
	if got := l.view("balanceOf", someone); got.Int64() != 20000 {
		t.Errorf("two transfers moved %s", got)
	}
}

func TestToken_WhatItRefuses(t *testing.T) {
	l := openLedger(t)
	stranger, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	future := big.NewInt(time.Now().Add(time.Hour).Unix())
	for name, c := range map[string]struct {
		words string
		key   *ecdsa.PrivateKey
		spoil func(*grant)
	}{
		"not yet valid":     {"authorization is not yet valid", l.key, func(g *grant) { g.after = future }},
		"expired":           {"authorization is expired", l.key, func(g *grant) { g.before = big.NewInt(1) }},
		"a stranger's key":  {"invalid signature", stranger, func(*grant) {}},
		"too much":          {"transfer amount exceeds balance", l.key, func(g *grant) { g.value = big.NewInt(1e15) }},
		"to no recipient":   {"transfer to the zero address", l.key, func(g *grant) { g.to = common.Address{} }},
		"a wallet refuses":  {"invalid signature", l.key, func(g *grant) { g.from = noWallet }},
		"a poor wallet":     {"transfer amount exceeds balance", l.key, func(g *grant) { g.from = yesWallet }},
		"the zero address":  {"invalid signature", l.key, func(g *grant) { g.from = common.Address{} }},
		"a code that fails": {"invalid signature", l.key, func(g *grant) { g.from = devnet.TokenAddress }},
	} {
		g := granted(1)
		c.spoil(&g)
		signature := l.sign(c.key, "TransferWithAuthorization", g.message())
		t.Log(name)
		l.reverts(c.words, transferBy, g.args(signature)...)
		l.reverts(c.words, transferBy, g.args(split(signature)...)...)
	}
}

func TestToken_ReadsOneFormOfASignature(t *testing.T) {
	l := openLedger(t)
	g := granted(1)
	good := l.sign(l.key, "TransferWithAuthorization", g.message())
	s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(good[32:64]))
	malleated := append(append(append([]byte{}, good[:32]...), common.LeftPadBytes(s.Bytes(), 32)...), 27+28-good[64])
	l.reverts("invalid signature 's' value", transferBy, g.args(malleated)...)
	l.reverts("invalid signature 'v' value", transferBy, g.args(append(append([]byte{}, good[:64]...), good[64]-27))...)
	l.reverts("invalid signature length", transferBy, g.args(good[:64])...)
	l.reverts("invalid signature length", transferBy, g.args([]byte{})...)
}

func TestToken_AContractWalletPays(t *testing.T) {
	l := openLedger(t)
	if events := l.send("transfer", yesWallet, big.NewInt(10000)); events != "Transfer" {
		t.Errorf("events: %s", events)
	}
	g := granted(1)
	g.from = yesWallet
	l.send(transferBy, g.args([]byte("any signature that the wallet takes"))...)
	if got := l.view("balanceOf", someone); got.Int64() != 10000 {
		t.Errorf("moved %s", got)
	}
}

func TestToken_ACanceledAuthorizationIsWorthNothing(t *testing.T) {
	l := openLedger(t)
	stranger, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	g := granted(1)
	message := apitypes.TypedDataMessage{"authorizer": g.from.Hex(), "nonce": g.nonce[:]}
	forged := append([]any{g.from, g.nonce}, split(l.sign(stranger, "CancelAuthorization", message))...)
	l.reverts("invalid signature", "cancelAuthorization", forged...)
	cancel := append([]any{g.from, g.nonce}, split(l.sign(l.key, "CancelAuthorization", message))...)
	if events := l.send("cancelAuthorization", cancel...); events != "AuthorizationCanceled" {
		t.Errorf("events: %s", events)
	}
	l.reverts("authorization is used or canceled", "cancelAuthorization", cancel...)
	l.reverts("authorization is used or canceled", transferBy, g.args(l.sign(l.key, "TransferWithAuthorization", g.message()))...)
	if l.view("authorizationState", g.from, g.nonce).Sign() == 0 || l.view("balanceOf", someone).Sign() != 0 {
		t.Error("the nonce is not spent, or money moved")
	}
}

func TestToken_OnlyThePayeeReceives(t *testing.T) {
	l := openLedger(t)
	g := granted(1)
	l.reverts("caller must be the payee", "receiveWithAuthorization", g.args(split(l.sign(l.key, "ReceiveWithAuthorization", g.message()))...)...)
	g.to = devnet.PayerAddress
	signature := l.sign(l.key, "ReceiveWithAuthorization", g.message())
	l.reverts("invalid signature", transferBy, g.args(signature)...) // it is for the payee to call
	if events := l.send("receiveWithAuthorization", g.args(split(signature)...)...); events != "AuthorizationUsed Transfer" {
		t.Errorf("events: %s", events)
	}
}

func TestToken_IsAnERC20WithUSDCsFace(t *testing.T) {
	l := openLedger(t)
	supply := big.NewInt(1_000_000_000_000)
	if l.view("decimals").Int64() != 6 || l.view("totalSupply").Cmp(supply) != 0 || l.view("balanceOf", devnet.PayerAddress).Cmp(supply) != 0 {
		t.Error("decimals, supply or the payer's balance are wrong")
	}
	l.reverts("transfer amount exceeds allowance", "transferFrom", devnet.PayerAddress, someone, big.NewInt(1))
	if events := l.send("approve", devnet.PayerAddress, big.NewInt(5)); events != "Approval" {
		t.Errorf("events: %s", events)
	}
	if events := l.send("transferFrom", devnet.PayerAddress, someone, big.NewInt(5)); events != "Transfer" {
		t.Errorf("events: %s", events)
	}
	if l.view("allowance", devnet.PayerAddress, devnet.PayerAddress).Sign() != 0 || l.view("balanceOf", someone).Int64() != 5 {
		t.Error("the allowance was not used up, or the money not moved")
	}
	l.reverts("transfer amount exceeds balance", "transfer", someone, new(big.Int).Add(supply, big.NewInt(1)))
}

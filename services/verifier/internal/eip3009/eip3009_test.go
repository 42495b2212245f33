package eip3009_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

var domain = eip3009.Domain{
	Name: "USD Coin", Version: "2", ChainID: big.NewInt(8453), Token: common.HexToAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
}

func wire() x402.Authorization {
	return x402.Authorization{
		From: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", To: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", Value: "10000",
		ValidAfter: "0", ValidBefore: "1795238078", Nonce: "0x" + strings.Repeat("0c", 32),
	}
}

func parse(t *testing.T) eip3009.Authorization {
	t.Helper()
	a, err := eip3009.Parse(wire())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDigest_IsThatOfEIP712(t *testing.T) {
	a := wire()
	data := apitypes.TypedData{
		PrimaryType: "TransferWithAuthorization",
		Types: apitypes.Types{
			"EIP712Domain": {{Name: "name", Type: "string"}, {Name: "version", Type: "string"}, {Name: "chainId", Type: "uint256"}, {Name: "verifyingContract", Type: "address"}},
			"TransferWithAuthorization": {
				{Name: "from", Type: "address"},
				{Name: "to", Type: "address"},
				{Name: "value", Type: "uint256"},
				{Name: "validAfter", Type: "uint256"},
				{Name: "validBefore", Type: "uint256"},
				{Name: "nonce", Type: "bytes32"},
			},
		},
		Domain: apitypes.TypedDataDomain{
			Name: domain.Name, Version: domain.Version, ChainId: (*math.HexOrDecimal256)(domain.ChainID), VerifyingContract: domain.Token.Hex(),
		},
		Message: apitypes.TypedDataMessage{
			"from": a.From, "to": a.To, "value": a.Value, "validAfter": a.ValidAfter, "validBefore": a.ValidBefore, "nonce": a.Nonce,
		},
	}
	want, _, err := apitypes.TypedDataAndHash(data)
	if err != nil {
		t.Fatal(err)
	}
	if got := parse(t).Digest(domain); got != common.BytesToHash(want) {
		t.Errorf("got %s, want %x", got, want)
	}
}

func TestSignature_NamesItsSigner(t *testing.T) {
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	a := parse(t)
	text, err := a.Sign(domain, key)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := eip3009.Signature(text)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := eip3009.Recover(a.Digest(domain), signature)
	if err != nil || signer != crypto.PubkeyToAddress(key.PublicKey) {
		t.Fatalf("%s, %v", signer, err)
	}
	for name, change := range map[string]func(*eip3009.Authorization, *eip3009.Domain){
		"from":         func(a *eip3009.Authorization, _ *eip3009.Domain) { a.From[0]++ },
		"to":           func(a *eip3009.Authorization, _ *eip3009.Domain) { a.To[0]++ },
		"value":        func(a *eip3009.Authorization, _ *eip3009.Domain) { a.Value = big.NewInt(10001) },
		"valid after":  func(a *eip3009.Authorization, _ *eip3009.Domain) { a.ValidAfter = big.NewInt(1) },
		"valid before": func(a *eip3009.Authorization, _ *eip3009.Domain) { a.ValidBefore = big.NewInt(1) },
		"nonce":        func(a *eip3009.Authorization, _ *eip3009.Domain) { a.Nonce[0]++ },
		"name":         func(_ *eip3009.Authorization, d *eip3009.Domain) { d.Name = "USDC" },
		"version":      func(_ *eip3009.Authorization, d *eip3009.Domain) { d.Version = "1" },
		"chain":        func(_ *eip3009.Authorization, d *eip3009.Domain) { d.ChainID = big.NewInt(1) },
		"token":        func(_ *eip3009.Authorization, d *eip3009.Domain) { d.Token[0]++ },
	} {
		other, otherDomain := a, domain
		change(&other, &otherDomain)
		if got, err := eip3009.Recover(other.Digest(otherDomain), signature); err == nil && got == signer {
			t.Errorf("%s is not signed", name)
		}
	}
}

func TestSignature_IsReadInOneFormOnly(t *testing.T) {
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	digest := parse(t).Digest(domain)
	good, err := crypto.Sign(digest.Bytes(), key)
	if err != nil {
		t.Fatal(err)
	}
	good[64] += 27
	s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(good[32:64]))
	malleated := append(append(append([]byte{}, good[:32]...), common.LeftPadBytes(s.Bytes(), 32)...), 27+28-good[64])
	plain := append(append([]byte{}, good[:64]...), good[64]-27)
	zero := append(make([]byte, 64), 27)
	for name, bad := range map[string][]byte{
		"the malleable duplicate": malleated, "v of 0 or 1": plain, "64 bytes": good[:64], "66 bytes": append(good[:65:65], 0), "zero": zero, "nothing": nil,
	} {
		if signer, err := eip3009.Recover(digest, bad); !errors.Is(err, eip3009.ErrSignature) {
			t.Errorf("%s: %s, %v", name, signer, err)
		}
	}
}

func TestParse_WhatIsNoAuthorization(t *testing.T) {
	tooLarge := new(big.Int).Lsh(big.NewInt(1), 256).String()
	for name, spoil := range map[string]func(*x402.Authorization){
		"no sender":            func(a *x402.Authorization) { a.From = "" },
		"half a payee":         func(a *x402.Authorization) { a.To = a.To[:30] },
		"hexadecimal value":    func(a *x402.Authorization) { a.Value = "0x2710" },
		"an exponent":          func(a *x402.Authorization) { a.Value = "1e4" },
		"a sign":               func(a *x402.Authorization) { a.Value = "+1" },
		"below zero":           func(a *x402.Authorization) { a.ValidAfter = "-1" },
		"no end":               func(a *x402.Authorization) { a.ValidBefore = "" },
		"more than 256 bits":   func(a *x402.Authorization) { a.ValidBefore = tooLarge },
		"a short nonce":        func(a *x402.Authorization) { a.Nonce = "0x" + strings.Repeat("0c", 31) },
		"a long nonce":         func(a *x402.Authorization) { a.Nonce += "0c" },
		"a nonce without 0x":   func(a *x402.Authorization) { a.Nonce = a.Nonce[2:] },
		"a nonce of no digits": func(a *x402.Authorization) { a.Nonce = "0x" + strings.Repeat("zz", 32) },
	} {
		a := wire()
		spoil(&a)
		if _, err := eip3009.Parse(a); !errors.Is(err, eip3009.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "0", "1234", "0x1", "0xzz"} {
		if _, err := eip3009.Signature(text); !errors.Is(err, eip3009.ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	a := wire()
	f.Add(a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce)
	f.Fuzz(func(t *testing.T, from, to, value, after, before, nonce string) {
		read, err := eip3009.Parse(x402.Authorization{From: from, To: to, Value: value, ValidAfter: after, ValidBefore: before, Nonce: nonce})
		if err != nil {
			return
		}
		again, err := eip3009.Parse(read.Wire())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(read.Wire(), again.Wire()); diff != "" || read.Digest(domain) != again.Digest(domain) {
			t.Error(diff)
		}
	})
}

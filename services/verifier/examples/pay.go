//go:build ignore

// Pay for a call in Go, with nothing but go-ethereum to sign:
//
//	PRIVATE_KEY=0x… go run examples/pay.go URL BODY > answer.json
//	receipt verify answer.json --key https://verifier.example
//
// After 503, as after any status from 500 on and a lost answer, it sends the same payment again, never a new
// one: the first may still be settled. After ten minutes it prints the payment instead, to be sent later. The
// program agent also survives a crash in between.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
)

func main() {
	url, body := os.Args[1], os.Args[2]
	answer, err := post(url, body, "") // 402: the offers are in a header
	check(err)
	challenge, err := base64.StdEncoding.DecodeString(answer.Header.Get("PAYMENT-REQUIRED"))
	check(err)
	var offer struct{ Accepts []json.RawMessage }
	check(json.Unmarshal(challenge, &offer))
	var ask struct {
		Scheme, Network, Amount, Asset, PayTo string
		MaxTimeoutSeconds                     int64
		Extra                                 struct{ Name, Version string }
	}
	check(json.Unmarshal(offer.Accepts[0], &ask))
	if ask.Scheme != "exact" || ask.Amount != "10000" { // your own limit, token and network
		check(fmt.Errorf("not buying at %+v", ask))
	}

	key, err := crypto.HexToECDSA(strings.TrimPrefix(os.Getenv("PRIVATE_KEY"), "0x"))
	check(err)
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce)
	authorization := map[string]any{
		"from": crypto.PubkeyToAddress(key.PublicKey).Hex(), "to": ask.PayTo, "value": ask.Amount, "validAfter": "0",
		"validBefore": fmt.Sprint(time.Now().Unix() + ask.MaxTimeoutSeconds), "nonce": hexutil.Encode(nonce),
	}
	chain, _ := new(big.Int).SetString(strings.TrimPrefix(ask.Network, "eip155:"), 10)
	hash, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		PrimaryType: "TransferWithAuthorization", Message: authorization,
		Domain: apitypes.TypedDataDomain{
			Name: ask.Extra.Name, Version: ask.Extra.Version, ChainId: (*math.HexOrDecimal256)(chain),
			VerifyingContract: ask.Asset,
		},
		Types: apitypes.Types{
			"EIP712Domain": {
				{Name: "name", Type: "string"},
				{Name: "version", Type: "string"},
				{Name: "chainId", Type: "uint256"},
				{Name: "verifyingContract", Type: "address"},
			},
			"TransferWithAuthorization": {
				{Name: "from", Type: "address"},
				{Name: "to", Type: "address"},
				{Name: "value", Type: "uint256"},
				{Name: "validAfter", Type: "uint256"},
				{Name: "validBefore", Type: "uint256"},
				{Name: "nonce", Type: "bytes32"},
			},
		},
	})
	check(err)
	signature, err := crypto.Sign(hash, key)
	check(err)
	signature[64] += 27

	payment, err := json.Marshal(map[string]any{
		"x402Version": 2, "accepted": offer.Accepts[0],
		"payload": map[string]any{"signature": hexutil.Encode(signature), "authorization": authorization},
	})
	check(err)
	sent := base64.StdEncoding.EncodeToString(payment)
	for end := time.Now().Add(10 * time.Minute); ; {
		answer, err = post(url, body, sent)
		if err == nil && answer.StatusCode < 500 {
			break
		}
		wait := 2 * time.Second
		if err == nil { // else the answer is lost, and open as well
			asked, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
			wait = max(wait, time.Duration(asked)*time.Second)
		}
		if time.Now().Add(wait).After(end) {
			check(fmt.Errorf("no answer yet: send the same request later with PAYMENT-SIGNATURE: %s", sent))
		}
		time.Sleep(wait)
	}
	_, err = io.Copy(os.Stdout, answer.Body)
	check(err)
	if answer.StatusCode != http.StatusOK {
		check(errors.New(answer.Status))
	}
}

// client waits for as long as a settlement may take.
var client = &http.Client{Timeout: 150 * time.Second}

func post(url, body, payment string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewBufferString(body))
	check(err)
	request.Header.Set("Content-Type", "application/json")
	if payment != "" {
		request.Header.Set("PAYMENT-SIGNATURE", payment)
	}
	return client.Do(request)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

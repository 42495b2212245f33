package paymenttest

import (
	"crypto/ecdsa"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Addresses of the tests.
const (
	Seller = "0x00000000000000000000000000000000000050A5"
	Buyer  = "0x00eDf2d16AfbC028FB1e879559b07997Af79539f" // of buyerKey
	Token  = "0x036CbD53842c5426634e7929541eC2318f3dCF7e" //nolint:gosec // an address, no credential
)

var buyerKey = func() *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(common.LeftPadBytes([]byte{130}, 32))
	if err != nil {
		panic(err)
	}
	return key
}()

// Payer returns the key of the n-th of many payers.
func Payer(n int) *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(common.LeftPadBytes(big.NewInt(int64(n)+1_000_000).Bytes(), 32))
	if err != nil {
		panic(err)
	}
	return key
}

// Address returns the address of a key.
func Address(key *ecdsa.PrivateKey) string { return crypto.PubkeyToAddress(key.PublicKey).Hex() }

// Sign returns the buyer's signature of an authorization for the token of the
// terms: the same for the same authorization.
func Sign(t payment.Terms, a x402.Authorization) string { return SignWith(buyerKey, t, a) }

// SignWith returns the signature of a key; "" for an authorization that is malformed.
func SignWith(key *ecdsa.PrivateKey, t payment.Terms, a x402.Authorization) string {
	authorization, err := eip3009.Parse(a)
	if err != nil {
		return ""
	}
	chainID, _ := x402.ChainID(t.Network)
	signature, err := authorization.Sign(eip3009.Domain{
		Name: t.AssetName, Version: t.AssetVersion, ChainID: chainID, Token: common.HexToAddress(t.Asset),
	}, key)
	if err != nil {
		panic(err)
	}
	return signature
}

// Forged has the form of an ordinary account's signature, and is none.
var Forged = "0x" + strings.Repeat("cd", 65)

// Terms returns terms that cost 0.01 USD on the network.
func Terms(network string) payment.Terms {
	return payment.Terms{
		Network: network, Asset: Token, AssetName: "USDC", AssetVersion: "2",
		PayTo: Seller, Amount: "10000", MaxTimeout: time.Minute, V1: true,
	}
}

// Nonce returns 32 bytes that end in some hexadecimal digits.
func Nonce(digits string) string { return "0x" + strings.Repeat("0", 64-len(digits)) + digits }

// Unix returns a moment as authorizations write it.
func Unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// Authorization returns what the buyer signs at a moment, with a nonce of the digits.
func Authorization(digits string, now time.Time) x402.Authorization {
	return x402.Authorization{
		From: Buyer, To: Seller, Value: "10000", ValidAfter: "0", ValidBefore: Unix(now.Add(time.Minute)),
		Nonce: Nonce(digits),
	}
}

// PayloadV2 returns what a version 2 client sends for the offer.
func PayloadV2(o payment.Offer, a x402.Authorization) x402.Payload {
	return x402.Payload{
		X402Version: x402.V2, Resource: &o.Resource, Accepted: o.Requirements(),
		Payload: x402.ExactPayload{Signature: Sign(o.Terms, a), Authorization: a}, Extensions: o.Extensions,
	}
}

// PayloadV1 returns what a version 1 client sends for the offer.
func PayloadV1(o payment.Offer, a x402.Authorization) x402.PayloadV1 {
	requirements, _ := o.RequirementsV1()
	return x402.PayloadV1{
		X402Version: x402.V1, Scheme: requirements.Scheme, Network: requirements.Network,
		Payload: x402.ExactPayload{Signature: Sign(o.Terms, a), Authorization: a},
	}
}

// WithIdentifier returns p with the buyer's idempotency key as its one extension.
func WithIdentifier(p x402.Payload, id string) x402.Payload {
	extension := json.RawMessage(`{"info":{"required":false,"id":"` + id + `"},"schema":{}}`)
	p.Extensions = map[string]json.RawMessage{payment.ExtensionIdentifier: extension}
	return p
}

package paymenttest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Addresses of the tests.
const (
	Shop  = "0x00000000000000000000000000000000000050A5"
	Buyer = "0x000000000000000000000000000000000000B0b5"
	Token = "0x036CbD53842c5426634e7929541eC2318f3dCF7e" //nolint:gosec // an address, no credential
)

// Signature has the form of an ordinary account's.
var Signature = "0x" + strings.Repeat("ab", 65)

// Terms cost 0.01 USD on the network.
func Terms(network string) payment.Terms {
	return payment.Terms{
		Network: network, Asset: Token, AssetName: "USDC", AssetVersion: "2",
		PayTo: Shop, Amount: "10000", MaxTimeout: time.Minute, V1: true,
	}
}

// Nonce makes 32 bytes of some hexadecimal digits.
func Nonce(digits string) string { return "0x" + strings.Repeat("0", 64-len(digits)) + digits }

// Unix is a moment as authorizations write it.
func Unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// Authorization is what the buyer signs at a moment, with a nonce of the digits.
func Authorization(digits string, now time.Time) x402.Authorization {
	return x402.Authorization{
		From: Buyer, To: Shop, Value: "10000", ValidAfter: "0", ValidBefore: Unix(now.Add(time.Minute)), Nonce: Nonce(digits),
	}
}

// PayloadV2 is what a version 2 client sends for the offer.
func PayloadV2(o payment.Offer, a x402.Authorization) x402.Payload {
	return x402.Payload{
		X402Version: x402.V2, Resource: &o.Resource, Accepted: o.Requirements(),
		Payload: x402.ExactPayload{Signature: Signature, Authorization: a}, Extensions: o.Extensions,
	}
}

// PayloadV1 is what a version 1 client sends for the offer.
func PayloadV1(o payment.Offer, a x402.Authorization) x402.PayloadV1 {
	requirements, _ := o.RequirementsV1()
	return x402.PayloadV1{
		X402Version: x402.V1, Scheme: requirements.Scheme, Network: requirements.Network,
		Payload: x402.ExactPayload{Signature: Signature, Authorization: a},
	}
}

// WithIdentifier adds the buyer's idempotency key.
func WithIdentifier(p x402.Payload, id string) x402.Payload {
	extension := json.RawMessage(`{"info":{"required":false,"id":"` + id + `"},"schema":{}}`)
	p.Extensions = map[string]json.RawMessage{payment.ExtensionIdentifier: extension}
	return p
}

package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/pforte/pforte/pkg/x402"
)

// Account signs payments and transactions.
type Account struct {
	key *secp256k1.PrivateKey
	// Address is 0x and lower-case hexadecimal digits.
	Address string
}

// NewAccount returns the account of a private key, hexadecimal digits with 0x or
// without. It panics when these are none: keys of tests are constants.
func NewAccount(key string) *Account {
	secret, err := hex.DecodeString(strings.TrimPrefix(key, "0x"))
	if err != nil {
		panic(fmt.Errorf("private key: %w", err))
	}
	private := secp256k1.PrivKeyFromBytes(secret)
	public := private.PubKey().SerializeUncompressed()
	return &Account{private, "0x" + hex.EncodeToString(Keccak(public[1:])[12:])}
}

// Payment is a signed payment, ready to be sent.
type Payment struct {
	Header, Value string // of HTTP
	Nonce         string // the authorization's, 0x and 64 lower-case hexadecimal digits
}

// Pay posts a body of JSON, with a payment unless it is nil.
func Pay(ctx context.Context, c *http.Client, url, body string, p *Payment) Answer {
	return send(ctx, c, http.MethodPost, url, body, func(r *http.Request) {
		if p != nil {
			r.Header.Set(p.Header, p.Value)
		}
	})
}

// Authorize returns an authorization (EIP-3009) for the first way to pay of an offer. It is
// valid at once, and until the offer's MaxTimeoutSeconds are over.
func (a *Account) Authorize(offer x402.PaymentRequired) (x402.Authorization, error) {
	if len(offer.Accepts) == 0 {
		return x402.Authorization{}, errors.New("there is no way to pay")
	}
	var nonce [32]byte
	_, _ = rand.Read(nonce[:]) // never fails
	terms := offer.Accepts[0]
	return x402.Authorization{
		From: a.Address, To: terms.PayTo, Value: terms.Amount, ValidAfter: "0",
		ValidBefore: strconv.FormatInt(time.Now().Unix()+int64(terms.MaxTimeoutSeconds), 10),
		Nonce:       "0x" + hex.EncodeToString(nonce[:]),
	}, nil
}

// Sign signs an authorization as it is, good or not, for the first way to pay of an offer, in version
// x402.V2 or x402.V1.
func (a *Account) Sign(offer x402.PaymentRequired, version int, authorization x402.Authorization) (Payment, error) {
	digest, err := Digest(offer.Accepts[0], authorization)
	if err != nil {
		return Payment{}, err
	}
	parity, r, s := a.SignDigest(digest)
	exact := x402.ExactPayload{Signature: fmt.Sprintf("0x%x%x%02x", r, s, parity+27), Authorization: authorization}
	p := Payment{Header: x402.HeaderPaymentSignature, Nonce: strings.ToLower(authorization.Nonce)}
	if version == x402.V2 {
		p.Value, err = x402.Encode(x402.Payload{
			X402Version: x402.V2, Resource: &offer.Resource, Accepted: offer.Accepts[0], Payload: exact,
			Extensions: offer.Extensions,
		})
		return p, err
	}
	name, ok := x402.V1Name(offer.Accepts[0].Network)
	if !ok {
		return Payment{}, fmt.Errorf("%s has no name in version 1", offer.Accepts[0].Network)
	}
	p.Header = x402.HeaderPaymentV1
	p.Value, err = x402.Encode(x402.PayloadV1{
		X402Version: x402.V1, Scheme: x402.SchemeExact, Network: name, Payload: exact,
	})
	return p, err
}

// SignDigest signs a digest of 32 bytes with the account's key. It returns r and s, of 32 bytes
// each, and the parity, 0 or 1, by which the public key can be computed from the signature.
func (a *Account) SignDigest(digest []byte) (parity byte, r, s []byte) {
	compact := ecdsa.SignCompact(a.key, digest, false)
	return compact[0] - 27, compact[1:33], compact[33:]
}

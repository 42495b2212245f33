package faults

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

	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/x402"
)

// account signs payments and transactions.
type account struct {
	key     *secp256k1.PrivateKey
	address string // 0x and lower-case hexadecimal digits
}

// newAccount returns the account of a private key in hexadecimal digits of our own.
func newAccount(key string) *account {
	private := secp256k1.PrivKeyFromBytes(unhex(key))
	public := private.PubKey().SerializeUncompressed()
	return &account{private, "0x" + hex.EncodeToString(client.Keccak(public[1:])[12:])}
}

// signed is a signed payment, ready to be sent.
type signed struct {
	header, value string // of HTTP
	nonce         string // the authorization's, 0x and 64 lower-case hexadecimal digits
}

// pay posts a body of JSON, with a payment unless it is nil.
func pay(ctx context.Context, c *http.Client, url, body string, p *signed) client.Answer {
	request, err := client.NewRequest(ctx, http.MethodPost, url, body)
	if err != nil {
		return client.Answer{Err: err}
	}
	if p != nil {
		request.Header.Set(p.header, p.value)
	}
	return client.Do(c, request)
}

// authorize returns an authorization (EIP-3009) for the first way to pay of an offer,
// good from now until the seller's longest wait.
func (a *account) authorize(offer x402.PaymentRequired) (x402.Authorization, error) {
	if len(offer.Accepts) == 0 {
		return x402.Authorization{}, errors.New("there is no way to pay")
	}
	var nonce [32]byte
	_, _ = rand.Read(nonce[:]) // never fails
	terms := offer.Accepts[0]
	return x402.Authorization{
		From: a.address, To: terms.PayTo, Value: terms.Amount, ValidAfter: "0",
		ValidBefore: strconv.FormatInt(time.Now().Unix()+int64(terms.MaxTimeoutSeconds), 10),
		Nonce:       "0x" + hex.EncodeToString(nonce[:]),
	}, nil
}

// sign signs an authorization as it is, good or not, in version x402.V2 or x402.V1.
func (a *account) sign(offer x402.PaymentRequired, version int, authorization x402.Authorization) (signed, error) {
	digest, err := client.Digest(offer.Accepts[0], authorization)
	if err != nil {
		return signed{}, err
	}
	parity, r, s := a.signDigest(digest)
	exact := x402.ExactPayload{Signature: fmt.Sprintf("0x%x%x%02x", r, s, parity+27), Authorization: authorization}
	p := signed{header: x402.HeaderPaymentSignature, nonce: strings.ToLower(authorization.Nonce)}
	if version == x402.V2 {
		p.value, err = x402.Encode(x402.Payload{
			X402Version: x402.V2, Resource: &offer.Resource, Accepted: offer.Accepts[0], Payload: exact, Extensions: offer.Extensions,
		})
		return p, err
	}
	name, ok := x402.V1Name(offer.Accepts[0].Network)
	if !ok {
		return signed{}, fmt.Errorf("%s has no name in version 1", offer.Accepts[0].Network)
	}
	p.header = x402.HeaderPaymentV1
	p.value, err = x402.Encode(x402.PayloadV1{X402Version: x402.V1, Scheme: x402.SchemeExact, Network: name, Payload: exact})
	return p, err
}

// signDigest returns the parity of the curve's point beside r and s.
func (a *account) signDigest(digest []byte) (parity byte, r, s []byte) {
	compact := ecdsa.SignCompact(a.key, digest, false)
	return compact[0] - 27, compact[1:33], compact[33:]
}

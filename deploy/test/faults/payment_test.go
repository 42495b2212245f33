package faults

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

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
	return &account{private, "0x" + hex.EncodeToString(keccak(public[1:])[12:])}
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
	digest, err := digest(offer.Accepts[0], authorization)
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

// digest is what is signed (EIP-712) for an authorization (EIP-3009) of the token
// that the offer names.
func digest(offer x402.Requirements, a x402.Authorization) ([]byte, error) {
	chain, ok := x402.ChainID(offer.Network)
	name, named := offer.Extra["name"].(string)
	version, versioned := offer.Extra["version"].(string)
	if !ok || !named || !versioned {
		return nil, errors.New("the offer does not name the token's domain")
	}
	token, err := words(chain.String(), offer.Asset)
	transfer, failed := words(a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	domain := keccak(
		keccak([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")),
		keccak([]byte(name)), keccak([]byte(version)), token)
	message := keccak(
		keccak([]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)")),
		transfer)
	return keccak([]byte("\x19\x01"), domain, message), nil
}

// words returns numbers, decimal or with 0x, as the 32-byte words of an ABI encoding.
func words(numbers ...string) (all []byte, err error) {
	for _, text := range numbers {
		n, ok := new(big.Int).SetString(text, 0)
		if !ok || n.Sign() < 0 || n.BitLen() > 256 {
			return nil, fmt.Errorf("%q is no number of 256 bits", text)
		}
		all = append(all, n.FillBytes(make([]byte, 32))...)
	}
	return all, nil
}

func keccak(parts ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		_, _ = h.Write(part) // a hash takes everything
	}
	return h.Sum(nil)
}

package client

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

	"github.com/pforte/pforte/pkg/x402"
)

// Buyer signs payments of one account.
type Buyer struct {
	key *secp256k1.PrivateKey
	// Address is the account, 0x and lower-case hexadecimal digits.
	Address string
}

// NewBuyer returns the buyer with a private key of 0x and 64 hexadecimal digits.
func NewBuyer(key string) (*Buyer, error) {
	secret, err := hex.DecodeString(strings.TrimPrefix(key, "0x"))
	if err != nil || len(secret) != 32 {
		return nil, errors.New("a buyer's key is 0x and 64 hexadecimal digits")
	}
	private := secp256k1.PrivKeyFromBytes(secret)
	public := private.PubKey().SerializeUncompressed()
	return &Buyer{key: private, Address: "0x" + hex.EncodeToString(keccak(public[1:])[12:])}, nil
}

// Challenge reads the offer in a 402 answer.
func (a Answer) Challenge() (c x402.PaymentRequired, err error) {
	if a.Err != nil || a.Status != http.StatusPaymentRequired {
		return c, fmt.Errorf("no offer but %s: %.200s", a, a.Body)
	}
	return c, x402.Decode(a.Header.Get(x402.HeaderPaymentRequired), &c)
}

// Pay posts a body of JSON, with a payment unless it is nil.
func Pay(ctx context.Context, c *http.Client, url, body string, p *Payment) Answer {
	request, err := NewRequest(ctx, http.MethodPost, url, body)
	if err != nil {
		return Answer{Err: err}
	}
	if p != nil {
		request.Header.Set(p.Header, p.Value)
	}
	return Do(c, request)
}

// Payment is one signed payment, ready to be sent.
type Payment struct {
	// Header is the name of the HTTP header, Value what is in it.
	Header, Value string
	// Nonce is the authorization's, 0x and 64 lower-case hexadecimal digits.
	Nonce string
	// ValidBefore is the Unix second at which the payment ends.
	ValidBefore int64
}

// Sign signs a payment for the first way to pay of a challenge, in version
// x402.V2 or x402.V1, good from now until the seller's longest wait.
func (b *Buyer) Sign(c x402.PaymentRequired, version int, now time.Time) (Payment, error) {
	a, err := b.Authorization(c, now)
	if err != nil {
		return Payment{}, err
	}
	return b.Seal(c, version, a)
}

// Authorization returns what Sign signs.
func (b *Buyer) Authorization(c x402.PaymentRequired, now time.Time) (x402.Authorization, error) {
	if len(c.Accepts) == 0 {
		return x402.Authorization{}, errors.New("the challenge offers no way to pay")
	}
	var nonce [32]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return x402.Authorization{}, err
	}
	offer := c.Accepts[0]
	return x402.Authorization{
		From: b.Address, To: offer.PayTo, Value: offer.Amount, ValidAfter: "0",
		ValidBefore: strconv.FormatInt(now.Unix()+int64(offer.MaxTimeoutSeconds), 10),
		Nonce:       "0x" + hex.EncodeToString(nonce[:]),
	}, nil
}

// Seal signs an authorization as it is, good or not, for a challenge.
func (b *Buyer) Seal(c x402.PaymentRequired, version int, a x402.Authorization) (Payment, error) {
	digest, err := Digest(c.Accepts[0], a)
	if err != nil {
		return Payment{}, err
	}
	// SignCompact returns v, r, s; EIP-3009 wants r, s, v.
	compact := ecdsa.SignCompact(b.key, digest, false)
	exact := x402.ExactPayload{
		Signature:     "0x" + hex.EncodeToString(append(compact[1:], compact[0])),
		Authorization: a,
	}
	before, err := strconv.ParseInt(a.ValidBefore, 10, 64)
	if err != nil {
		return Payment{}, err
	}
	p := Payment{Header: x402.HeaderPaymentSignature, Nonce: strings.ToLower(a.Nonce), ValidBefore: before}
	if version == x402.V2 {
		p.Value, err = x402.Encode(x402.Payload{
			X402Version: x402.V2, Resource: &c.Resource, Accepted: c.Accepts[0], Payload: exact, Extensions: c.Extensions,
		})
		return p, err
	}
	name, ok := x402.V1Name(c.Accepts[0].Network)
	if !ok {
		return Payment{}, fmt.Errorf("%s has no name in version 1", c.Accepts[0].Network)
	}
	p.Header = x402.HeaderPaymentV1
	p.Value, err = x402.Encode(x402.PayloadV1{X402Version: x402.V1, Scheme: x402.SchemeExact, Network: name, Payload: exact})
	return p, err
}

// SignRaw signs the Keccak-256 of some bytes, as transactions are signed, and
// returns the parity of the curve's point beside r and s.
func (b *Buyer) SignRaw(text []byte) (parity byte, r, s []byte) {
	compact := ecdsa.SignCompact(b.key, keccak(text), false)
	return compact[0] - 27, compact[1:33], compact[33:]
}

// Digest is what is signed (EIP-712) for an authorization (EIP-3009) of the
// token that the offer names.
func Digest(offer x402.Requirements, a x402.Authorization) ([]byte, error) {
	chain, ok := x402.ChainID(offer.Network)
	name, named := offer.Extra["name"].(string)
	version, versioned := offer.Extra["version"].(string)
	if !ok || !named || !versioned {
		return nil, errors.New("the offer does not name the token's domain")
	}
	w := words{}
	domain := keccak(
		keccak([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")),
		keccak([]byte(name)), keccak([]byte(version)), w.number(chain.String()), w.hex(offer.Asset))
	transfer := keccak(
		keccak([]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)")),
		w.hex(a.From), w.hex(a.To), w.number(a.Value), w.number(a.ValidAfter), w.number(a.ValidBefore), w.hex(a.Nonce))
	return keccak([]byte("\x19\x01"), domain, transfer), w.err
}

// words makes the 32-byte words of an ABI encoding and keeps the first fault.
type words struct{ err error }

func (w *words) number(decimal string) []byte {
	n, ok := new(big.Int).SetString(decimal, 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 256 {
		w.err = fmt.Errorf("%q is no number of 256 bits", decimal)
		return nil
	}
	return n.FillBytes(make([]byte, 32))
}

func (w *words) hex(text string) []byte {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil || len(raw) > 32 {
		w.err = fmt.Errorf("%q is no word", text)
		return nil
	}
	return append(make([]byte, 32-len(raw)), raw...)
}

func keccak(parts ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		_, _ = h.Write(part) // a hash takes everything
	}
	return h.Sum(nil)
}

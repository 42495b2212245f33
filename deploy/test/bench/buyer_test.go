package bench

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/x402"
)

// buyer is the account that pays, whose key is layout.PayerKey.
const buyer = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"

// payments returns requests that buy, each with a payment of its own.
func (w *world) payments(addr string, n int) [][]byte {
	offer, err := client.Post(w.Context(), "http://"+addr+verifyPath, w.order).Challenge()
	w.must(err)
	secret, err := hex.DecodeString(layout.PayerKey[2:])
	w.must(err)
	key := secp256k1.PrivKeyFromBytes(secret)
	requests, faults := make([][]byte, n), make([]error, n)
	var all sync.WaitGroup
	for core := range runtime.NumCPU() {
		all.Go(func() {
			for i := core; i < n; i += runtime.NumCPU() {
				header, err := pay(key, offer)
				requests[i], faults[i] = request(http.MethodPost, verifyPath, w.order, http.Header{x402.HeaderPaymentSignature: {header}}), err
			}
		})
	}
	all.Wait()
	w.must(errors.Join(faults...))
	return requests
}

// pay signs (EIP-712) an authorization (EIP-3009) for an offer and returns the
// header that pays.
func pay(key *secp256k1.PrivateKey, offer x402.PaymentRequired) (string, error) {
	terms, nonce := offer.Accepts[0], make([]byte, 32)
	_, _ = rand.Read(nonce) // never fails
	a := x402.Authorization{
		From: buyer, To: terms.PayTo, Value: terms.Amount, ValidAfter: "0",
		ValidBefore: strconv.FormatInt(time.Now().Unix()+int64(terms.MaxTimeoutSeconds), 10), Nonce: fmt.Sprintf("0x%x", nonce),
	}
	digest, err := client.Digest(terms, a)
	if err != nil {
		return "", err
	}
	signed := ecdsa.SignCompact(key, digest, false) // v, r, s
	return x402.Encode(x402.Payload{
		X402Version: x402.V2, Resource: &offer.Resource, Accepted: terms, Extensions: offer.Extensions,
		Payload: x402.ExactPayload{Signature: fmt.Sprintf("0x%x%02x", signed[1:], signed[0]), Authorization: a},
	})
}

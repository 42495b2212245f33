package devnet_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

const chainID = 84532

// network is one development network for all tests of the package: starting one
// takes a moment, and every payment has a nonce of its own.
type network struct {
	*devnet.Network
	server *httptest.Server
	client *ethclient.Client
}

var shared = sync.OnceValues(func() (*network, error) {
	n, err := devnet.Start(context.Background(), devnet.Config{ChainID: chainID, BlockTime: time.Second, FinalityDepth: 2, BeaconAddr: "127.0.0.1:0"}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return nil, err
	}
	return &network{Network: n, server: httptest.NewServer(n.Facilitator.Handler()), client: n.Client()}, nil
})

func start(t *testing.T) *network {
	t.Helper()
	n, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *network) post(t *testing.T, path string, body []byte, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.server.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, into) != nil {
		t.Errorf("%v, %s", err, text)
	}
}

// payment is a good payment that a test may spoil before it is signed.
type payment struct {
	version       int
	required      x402.Requirements
	accepted      *x402.Requirements // nil: as required
	authorization eip3009.Authorization
	domain        eip3009.Domain
	key           *ecdsa.PrivateKey
	signature     string // "": made with key
}

func good(t *testing.T) *payment {
	t.Helper()
	key, err := crypto.HexToECDSA(strings.TrimPrefix(devnet.PayerKey, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	p := &payment{
		version: x402.V2,
		required: x402.Requirements{
			Scheme: x402.SchemeExact, Network: "eip155:84532", Amount: "10000", Asset: devnet.TokenAddress.Hex(),
			PayTo: devnet.PayeeAddress.Hex(), MaxTimeoutSeconds: 60, Extra: map[string]any{"name": "USD Coin", "version": "2"},
		},
		authorization: eip3009.Authorization{
			From: devnet.PayerAddress, To: devnet.PayeeAddress, Value: big.NewInt(10000),
			ValidAfter: big.NewInt(now - 600), ValidBefore: big.NewInt(now + 60),
		},
		domain: eip3009.Domain{Name: "USD Coin", Version: "2", ChainID: big.NewInt(chainID), Token: devnet.TokenAddress},
		key:    key,
	}
	if _, err := rand.Read(p.authorization.Nonce[:]); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *payment) body(t *testing.T) []byte {
	t.Helper()
	if p.signature == "" {
		signature, err := p.authorization.Sign(p.domain, p.key)
		if err != nil {
			t.Fatal(err)
		}
		p.signature = signature
	}
	exact := x402.ExactPayload{Signature: p.signature, Authorization: p.authorization.Wire()}
	accepted := p.required
	if p.accepted != nil {
		accepted = *p.accepted
	}
	var payload, required any = x402.Payload{X402Version: p.version, Accepted: accepted, Payload: exact}, p.required
	if p.version == x402.V1 {
		payload = x402.PayloadV1{X402Version: 1, Scheme: accepted.Scheme, Network: "base-sepolia", Payload: exact}
		required = x402.RequirementsV1{
			Scheme: p.required.Scheme, Network: "base-sepolia", MaxAmountRequired: p.required.Amount, Resource: "http://x/",
			PayTo: p.required.PayTo, Asset: p.required.Asset, MaxTimeoutSeconds: 60, Extra: p.required.Extra,
		}
	}
	body, err := json.Marshal(map[string]any{"x402Version": p.version, "paymentPayload": payload, "paymentRequirements": required})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (n *network) balance(t *testing.T, holder common.Address) int64 {
	t.Helper()
	var word string
	data := "0x70a08231" + common.Bytes2Hex(common.LeftPadBytes(holder.Bytes(), 32))
	err := n.client.Client().CallContext(t.Context(), &word, "eth_call", map[string]string{"to": devnet.TokenAddress.Hex(), "data": data}, "latest")
	if err != nil {
		t.Fatal(err)
	}
	return new(big.Int).SetBytes(common.FromHex(word)).Int64()
}

func TestFacilitator_VerifiesAndSettlesBothVersions(t *testing.T) {
	n := start(t)
	for _, version := range []int{x402.V2, x402.V1} {
		p := good(t)
		p.version = version
		body := p.body(t)
		var v x402.VerifyResponse
		n.post(t, "/verify", body, &v)
		if v.IsValid == nil || !*v.IsValid || v.Payer != devnet.PayerAddress.Hex() {
			t.Fatalf("version %d: %+v", version, v)
		}
		before := n.balance(t, devnet.PayeeAddress)
		var first, again x402.SettleResponse
		n.post(t, "/settle", body, &first)
		if first.Success == nil || !*first.Success || len(first.Transaction) != 66 {
			t.Fatalf("version %d: %+v", version, first)
		}
		if got := n.balance(t, devnet.PayeeAddress); got != before+10000 {
			t.Errorf("the payee has %d more", got-before)
		}
		n.post(t, "/settle", body, &again)
		if again.Success == nil || !*again.Success || again.Transaction != first.Transaction {
			t.Errorf("settled again: %+v", again)
		}
		n.post(t, "/verify", body, &v)
		if *v.IsValid || v.InvalidReason != x402.ReasonNonceAlreadyUsed {
			t.Errorf("verified again: %+v", v)
		}
	}
}

func TestFacilitator_RefusesWhatARealOneDoes(t *testing.T) {
	n := start(t)
	stranger, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil  func(*payment)
		reason string
	}{
		"another amount":        {func(p *payment) { p.authorization.Value = big.NewInt(9999) }, x402.ReasonValueMismatch},
		"more than the price":   {func(p *payment) { p.authorization.Value = big.NewInt(10001) }, x402.ReasonValueMismatch},
		"another payee":         {func(p *payment) { p.authorization.To = devnet.PayerAddress }, x402.ReasonRecipientMismatch},
		"another asset":         {func(p *payment) { p.required.Asset = devnet.PayeeAddress.Hex() }, x402.ReasonInvalidRequirement},
		"another network":       {func(p *payment) { p.required.Network = "eip155:8453" }, x402.ReasonInvalidNetwork},
		"another scheme":        {func(p *payment) { p.required.Scheme = "upto" }, x402.ReasonUnsupportedScheme},
		"another token name":    {func(p *payment) { p.required.Extra = map[string]any{"name": "USDC", "version": "2"} }, x402.ReasonInvalidRequirement},
		"another version":       {func(p *payment) { p.version = 3 }, x402.ReasonInvalidVersion},
		"not yet valid":         {func(p *payment) { p.authorization.ValidAfter = big.NewInt(time.Now().Unix() + 60) }, x402.ReasonValidAfter},
		"expired":               {func(p *payment) { p.authorization.ValidBefore = big.NewInt(time.Now().Unix() - 1) }, x402.ReasonValidBefore},
		"about to expire":       {func(p *payment) { p.authorization.ValidBefore = big.NewInt(time.Now().Unix() + 3) }, x402.ReasonValidBefore},
		"a stranger's key":      {func(p *payment) { p.key = stranger }, x402.ReasonInvalidSignature},
		"another domain":        {func(p *payment) { p.domain.Name = "USDC" }, x402.ReasonInvalidSignature},
		"another chain":         {func(p *payment) { p.domain.ChainID = big.NewInt(8453) }, x402.ReasonInvalidSignature},
		"a signature too short": {func(p *payment) { p.signature = "0x1234" }, x402.ReasonInvalidSignature},
		"no hex signature":      {func(p *payment) { p.signature = "zz" }, x402.ReasonInvalidPayload},
		"an empty balance": {func(p *payment) {
			p.key, p.authorization.From = stranger, crypto.PubkeyToAddress(stranger.PublicKey)
		}, x402.ReasonInsufficientFunds},
		"terms the buyer did not accept": {func(p *payment) {
			other := p.required
			other.Amount = "1"
			p.accepted = &other
		}, x402.ReasonValueMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			p := good(t)
			c.spoil(p)
			body := p.body(t)
			var v x402.VerifyResponse
			n.post(t, "/verify", body, &v)
			if v.IsValid == nil || *v.IsValid || v.InvalidReason != c.reason {
				t.Errorf("verify: %v %q, want %q", v.IsValid, v.InvalidReason, c.reason)
			}
			var s x402.SettleResponse
			n.post(t, "/settle", body, &s)
			if s.Success == nil || *s.Success || s.ErrorReason != c.reason || s.Transaction != "" {
				t.Errorf("settle: %+v, want %q", s, c.reason)
			}
		})
	}
}

func TestFacilitator_MalformedRequestsAreRefusals(t *testing.T) {
	n := start(t)
	for _, body := range []string{"", "{}", "[]", `{"x402Version":2}`, `{"x402Version":2,"paymentPayload":{},"paymentRequirements":{}}`} {
		var v x402.VerifyResponse
		n.post(t, "/verify", []byte(body), &v)
		if v.IsValid == nil || *v.IsValid || v.InvalidReason == "" {
			t.Errorf("%q: %+v", body, v)
		}
	}
}

// settle wants a settlement to succeed.
func (n *network) settle(t *testing.T, body []byte) {
	var s x402.SettleResponse
	n.post(t, "/settle", body, &s)
	if s.Success == nil || !*s.Success {
		t.Errorf("%+v", s)
	}
}

func TestFacilitator_AHundredCopiesMoveTheMoneyOnce(t *testing.T) {
	n := start(t)
	body := good(t).body(t)
	before := n.balance(t, devnet.PayeeAddress)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { n.settle(t, body) })
	}
	all.Wait()
	if got := n.balance(t, devnet.PayeeAddress) - before; got != 10000 {
		t.Errorf("100 copies moved %d", got)
	}
}

func TestFacilitator_AHundredPaymentsSettleSideBySide(t *testing.T) {
	n := start(t)
	before := n.balance(t, devnet.PayeeAddress)
	var all sync.WaitGroup
	for range 100 {
		body := good(t).body(t)
		all.Go(func() { n.settle(t, body) })
	}
	all.Wait()
	if got := n.balance(t, devnet.PayeeAddress) - before; got != 1_000_000 {
		t.Errorf("100 payments moved %d", got)
	}
}

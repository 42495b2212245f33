package devnet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

const (
	// maxBody bounds a request to the facilitator, in bytes.
	maxBody = 256 << 10
	// settleMargin is how long an authorization must still be good, as with the
	// official facilitator.
	settleMargin = 6 * time.Second
)

// Facilitator verifies and settles x402 payments on the development chain, in
// both protocol versions. It is what a public facilitator is to a seller.
type Facilitator struct {
	chain   *ethclient.Client
	token   token
	chainID *big.Int
	network string
	log     *slog.Logger
	sender  sender

	mu sync.Mutex
	// sent has, by the digest of what was signed and the signature, the function that judges and
	// broadcasts a payment at its first call. Each call returns that transaction, so that a
	// retried request sends no other. What failed is not in it.
	sent map[common.Hash]func() (common.Hash, error)
}

// newFacilitator returns a facilitator for a chain that has the token at
// TokenAddress.
func newFacilitator(chain *ethclient.Client, t token, chainID uint64, log *slog.Logger) (*Facilitator, error) {
	id := new(big.Int).SetUint64(chainID)
	key, err := crypto.HexToECDSA(facilitatorKey)
	return &Facilitator{
		chain: chain, token: t, chainID: id, network: "eip155:" + id.String(), log: log,
		sender: sender{chain: chain, key: key, chainID: id}, sent: map[common.Hash]func() (common.Hash, error){},
	}, err
}

// Handler returns a handler of POST /verify, POST /settle, GET /supported and GET /health.
func (f *Facilitator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, f.verify) })
	mux.HandleFunc("POST /settle", func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, f.settle) })
	mux.HandleFunc("GET /supported", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, f.supported())
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if _, err := f.chain.BlockNumber(r.Context()); err != nil {
			answer(w, http.StatusServiceUnavailable, map[string]string{"status": "the chain does not answer"})
			return
		}
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	return mux
}

func (f *Facilitator) supported() x402.Supported {
	s := x402.Supported{
		Kinds:      []x402.Kind{{X402Version: x402.V2, Scheme: x402.SchemeExact, Network: f.network}},
		Extensions: []string{},
		Signers:    map[string][]string{"eip155:*": {facilitatorAddress.Hex()}},
	}
	if name, ok := x402.V1Name(f.network); ok {
		s.Kinds = append(s.Kinds, x402.Kind{X402Version: x402.V1, Scheme: x402.SchemeExact, Network: name})
	}
	return s
}

// serve reads a request and answers with what do finds. Malformed requests are
// refused payments, as with public facilitators.
func (f *Facilitator) serve(w http.ResponseWriter, r *http.Request, do func(context.Context, payment, error) any) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		body = nil // no request either
	}
	p, err := f.read(body)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	answer(w, http.StatusOK, do(ctx, p, err))
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller has gone if this fails
}

// payment is what was read of a request.
type payment struct {
	// network is the one that the seller requires, in the words of the version.
	network string
	// payer, authorization and signature are set together, once the terms hold and all of
	// them are well formed.
	payer         string
	authorization eip3009.Authorization
	signature     []byte
}

// refusal is a reason of the protocol for a refused payment.
type refusal string

func (r refusal) Error() string { return string(r) }

// Reasons of official facilitators that only a facilitator decides on.
const (
	reasonSimulation  = "invalid_exact_evm_transaction_simulation_failed"
	reasonTransaction = "invalid_transaction_state"
)

// read reads a request of either version and refuses what is wrong with it whatever
// the chain and the time.
func (f *Facilitator) read(body []byte) (payment, error) {
	var r x402.Request
	loose := strictjson.Rules{AllowUnknown: true, AllowNull: true}
	if err := strictjson.Unmarshal(body, &r, loose); err != nil {
		return payment{}, refusal(x402.ReasonInvalidPayload)
	}
	var sent x402.ExactPayload
	var accepted, required x402.Requirements
	var err error
	network := f.network
	switch r.X402Version {
	case x402.V2:
		var p x402.Payload
		err = errors.Join(strictjson.Unmarshal(r.PaymentPayload, &p, loose),
			strictjson.Unmarshal(r.PaymentRequirements, &required, loose))
		sent, accepted = p.Payload, p.Accepted
	case x402.V1:
		var p x402.PayloadV1
		var q x402.RequirementsV1
		err = errors.Join(strictjson.Unmarshal(r.PaymentPayload, &p, loose),
			strictjson.Unmarshal(r.PaymentRequirements, &q, loose))
		required = x402.Requirements{
			Scheme: q.Scheme, Network: q.Network, Amount: q.MaxAmountRequired, Asset: q.Asset, PayTo: q.PayTo,
			Extra: q.Extra,
		}
		sent, accepted = p.Payload, required // the payload repeats only these two
		accepted.Scheme, accepted.Network = p.Scheme, p.Network
		network, _ = x402.V1Name(f.network)
	default:
		return payment{}, refusal(x402.ReasonInvalidVersion)
	}
	p := payment{network: required.Network}
	if err != nil {
		return p, refusal(x402.ReasonInvalidPayload)
	}
	if err := checkTerms(network, accepted, required); err != nil {
		return p, err
	}
	a, err := eip3009.Parse(sent.Authorization)
	signature, signatureErr := eip3009.Signature(sent.Signature)
	if err != nil || signatureErr != nil {
		return p, refusal(x402.ReasonInvalidPayload)
	}
	p.payer, p.authorization, p.signature = a.From.Hex(), a, signature
	switch {
	case !isSameAddress(a.To.Hex(), required.PayTo):
		return p, refusal(x402.ReasonRecipientMismatch)
	case a.Value.String() != required.Amount:
		return p, refusal(x402.ReasonValueMismatch)
	}
	return p, nil
}

// checkTerms refuses terms that are not those of the token on the network, and those
// that the buyer did not accept.
func checkTerms(network string, accepted, required x402.Requirements) error {
	switch {
	case required.Scheme != x402.SchemeExact || accepted.Scheme != x402.SchemeExact:
		return refusal(x402.ReasonUnsupportedScheme)
	case network == "" || required.Network != network || accepted.Network != network:
		return refusal(x402.ReasonInvalidNetwork)
	case !isSameAddress(required.Asset, TokenAddress.Hex()) || !isSameAddress(accepted.Asset, required.Asset):
		return refusal(x402.ReasonInvalidRequirement)
	case required.Extra["name"] != TokenName || required.Extra["version"] != TokenVersion:
		return refusal(x402.ReasonInvalidRequirement)
	case !isSameAddress(accepted.PayTo, required.PayTo):
		return refusal(x402.ReasonRecipientMismatch)
	case accepted.Amount != required.Amount:
		return refusal(x402.ReasonValueMismatch)
	}
	return nil
}

func isSameAddress(a, b string) bool { return common.IsHexAddress(a) && strings.EqualFold(a, b) }

func (f *Facilitator) verify(ctx context.Context, p payment, err error) any {
	if err == nil {
		err = f.judge(ctx, p)
	}
	valid := err == nil
	return x402.VerifyResponse{
		IsValid: &valid, InvalidReason: f.reason(err, x402.ReasonUnexpectedVerify), Payer: p.payer,
	}
}

// reason returns the protocol's reason for an error, "" for nil. An error that is no refusal is logged, and its reason
// is unexpected.
func (f *Facilitator) reason(err error, unexpected string) string {
	var r refusal
	switch {
	case err == nil:
		return ""
	case errors.As(err, &r):
		return string(r)
	}
	f.log.Error("judge or settle the payment", "reason", unexpected, "error", err)
	return unexpected
}

// judge returns nil when a payment would settle now. Its window is compared with the clock; all
// the rest is decided by the token, which executes the transfer on the latest block without
// keeping it. That is one call, so the answer holds for one moment, and contract wallets decide as
// they will.
func (f *Facilitator) judge(ctx context.Context, p payment) error {
	now := time.Now()
	switch a := p.authorization; {
	case a.ValidAfter.Cmp(big.NewInt(now.Unix())) > 0:
		return refusal(x402.ReasonValidAfter)
	case a.ValidBefore.Cmp(big.NewInt(now.Add(settleMargin).Unix())) < 0:
		return refusal(x402.ReasonValidBefore)
	}
	call, err := f.token.transfer(p.authorization, p.signature)
	if err != nil {
		return err
	}
	_, err = f.chain.CallContract(ctx, ethereum.CallMsg{
		From: facilitatorAddress, To: &TokenAddress, Gas: transferGas, Data: call,
	}, nil)
	return refusalOf(err)
}

// reverts maps the token's revert messages to reasons of the protocol.
var reverts = []struct{ text, reason string }{
	{"authorization is not yet valid", x402.ReasonValidAfter},
	{"authorization is expired", x402.ReasonValidBefore},
	{"authorization is used or canceled", x402.ReasonNonceAlreadyUsed},
	{"transfer amount exceeds balance", x402.ReasonInsufficientFunds},
	{"invalid signature", x402.ReasonInvalidSignature},
}

// refusalOf reads why a call failed. What the node answered is a refusal; what
// it did not answer stays an error.
func refusalOf(err error) error {
	var answered rpc.Error
	if err == nil || !errors.As(err, &answered) {
		return err
	}
	var reverted rpc.DataError
	if errors.As(err, &reverted) {
		data, _ := reverted.ErrorData().(string)
		text, _ := abi.UnpackRevert(common.FromHex(data)) // "" is in no row
		for _, r := range reverts {
			if strings.Contains(text, r.text) {
				return refusal(r.reason)
			}
		}
	}
	return refusal(reasonSimulation)
}

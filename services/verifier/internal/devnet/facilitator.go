package devnet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/x402"
)

// maxBody bounds a request to the facilitator, in bytes.
const maxBody = 256 << 10

// Facilitator verifies and settles x402 payments on the development chain, in
// both protocol versions. It is what a public facilitator is to a seller.
type Facilitator struct {
	chain   *ethclient.Client
	token   token
	chainID *big.Int
	network string
	log     *slog.Logger
	sender  *sender
	settled *settlements
}

// NewFacilitator returns a facilitator for a chain that has the token at
// TokenAddress.
func NewFacilitator(chain *ethclient.Client, chainID uint64, log *slog.Logger) (*Facilitator, error) {
	t, err := readToken()
	if err != nil {
		return nil, err
	}
	key, err := parseKey(facilitatorKey)
	if err != nil {
		return nil, err
	}
	id := new(big.Int).SetUint64(chainID)
	return &Facilitator{
		chain: chain, token: t, chainID: id, network: "eip155:" + id.String(), log: log,
		sender:  &sender{chain: chain, key: key, chainID: id},
		settled: &settlements{entries: map[common.Hash]*settlement{}},
	}, nil
}

// Handler answers POST /verify, POST /settle, GET /supported and GET /health.
func (f *Facilitator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, f.verify) })
	mux.HandleFunc("POST /settle", func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, f.settle) })
	mux.HandleFunc("GET /supported", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, f.supported()) })
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
func (f *Facilitator) serve(w http.ResponseWriter, r *http.Request, do func(context.Context, offer, error) any) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var o offer
	if err == nil {
		o, err = readOffer(body)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	answer(w, http.StatusOK, do(ctx, o, err))
}

// offer is a payment with the seller's requirements, of either version.
type offer struct {
	version  int
	payload  x402.ExactPayload
	accepted terms
	required terms
}

// terms are what both versions have under other names.
type terms struct {
	scheme, network, amount, asset, payTo string
	extra                                 map[string]any
}

var errVersion = errors.New("x402 version is neither 1 nor 2")

func readOffer(body []byte) (offer, error) {
	var r x402.Request
	loose := strictjson.Rules{AllowUnknown: true, AllowNull: true}
	if err := strictjson.Unmarshal(body, &r, loose); err != nil {
		return offer{}, err
	}
	switch r.X402Version {
	case x402.V2:
		var p x402.Payload
		var q x402.Requirements
		err := errors.Join(strictjson.Unmarshal(r.PaymentPayload, &p, loose), strictjson.Unmarshal(r.PaymentRequirements, &q, loose))
		return offer{version: x402.V2, payload: p.Payload, accepted: termsOf(p.Accepted), required: termsOf(q)}, err
	case x402.V1:
		var p x402.PayloadV1
		var q x402.RequirementsV1
		err := errors.Join(strictjson.Unmarshal(r.PaymentPayload, &p, loose), strictjson.Unmarshal(r.PaymentRequirements, &q, loose))
		required := terms{scheme: q.Scheme, network: q.Network, amount: q.MaxAmountRequired, asset: q.Asset, payTo: q.PayTo, extra: q.Extra}
		accepted := required // version 1 payloads repeat only these two
		accepted.scheme, accepted.network = p.Scheme, p.Network
		return offer{version: x402.V1, payload: p.Payload, accepted: accepted, required: required}, err
	}
	return offer{}, errVersion
}

func termsOf(r x402.Requirements) terms {
	return terms{scheme: r.Scheme, network: r.Network, amount: r.Amount, asset: r.Asset, payTo: r.PayTo, extra: r.Extra}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}

package httpapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

const (
	network   = "eip155:84532"
	publicURL = "https://seller.example"
	base      = "/v1/verify/base-transaction"
	alias     = "/v1/verify/chain-transaction"

	transfers      = "/v1/verify/base-token-transfer"
	transfersAlias = "/v1/verify/token-transfer"

	// recordedTx is a transaction of Base's block 2,000,000.
	recordedTx = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"
	goodBody   = `{"transactionHash":"` + recordedTx + `","expectations":{"status":"success"}}`
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is a whole verifier over HTTP with a recorded chain, a simulator, and a clock
// that tests move.
type world struct {
	testing.TB
	handler  http.Handler
	url      string
	sim      *paymenttest.Simulator
	ledger   payment.Ledger
	paywall  *paywall.Paywall
	node     *chaintest.Node
	key      *receipt.SigningKey
	registry *prometheus.Registry
	logged   *bytes.Buffer
	sick     error
	tools    *httpapi.MCP
	// heads and progress, unless nil, are those of the first chain.
	heads    func(context.Context) (chain.Heads, error)
	progress func(context.Context, chain.Hash, func() error) (chain.Progress, error)
	receipts *translog.Log
	check    []byte // the page that checks receipts
	// finality, unless nil, proves blocks of the first chain.
	finality *beaconchain.Chain
	// beforeSold, unless nil, is called before a sold answer is read.
	beforeSold func()
	// more are recordings that are served too, each as a chain of its own name.
	more []string
	// reopen serves again, with a reader that knows nothing yet.
	reopen func()

	mu  sync.Mutex
	now time.Time
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// slowNode is how long a node may take, on a slow machine.
const slowNode = 30 * time.Second

// open serves a verifier; change may alter the paywall's options.
func open(t testing.TB, change func(*paywall.Options)) *world {
	t.Helper()
	w := &world{TB: t, now: start, logged: &bytes.Buffer{}, registry: prometheus.NewRegistry()}
	w.tools = &httpapi.MCP{AnswerTimeout: time.Minute, Version: "v1.2.3"}
	w.sim = paymenttest.NewSimulator(network, w.clock)
	w.ledger = paymenttest.Ledger(t, w.clock)
	w.node = chaintest.NewNode(t, chaintest.Load(t, chaintest.BaseBlock))
	metrics, err := httpapi.NewMetrics(w.registry)
	w.must(err)
	log := slog.New(slog.NewTextHandler(&syncWriter{w: w.logged}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := paywall.Options{
		Ledger: w.ledger, Facilitator: w.sim, ChainLog: w.sim, FreeSettlements: 1000,
		VerifyTimeout: time.Minute, SettleTimeout: time.Minute, WorkTimeout: time.Minute, // for slow machines
		AttemptsPerPayer: 10000, AttemptsPerAddress: 10000,
		Log: log, Now: w.clock, Heartbeat: time.Hour, Pause: time.Millisecond, Ended: metrics.PaymentEnded,
	}
	if change != nil {
		change(&o)
	}
	w.paywall, err = paywall.Open(context.Background(), o)
	w.must(err)
	t.Cleanup(func() { _ = w.paywall.Close(context.Background()) })
	w.must(httpapi.RegisterStatus(w.registry, w.paywall, func(context.Context) error { return nil }))
	w.reopen = func() { w.serve(metrics, log) }
	w.reopen()
	return w
}

func (w *world) serve(metrics *httpapi.Metrics, log *slog.Logger) {
	w.Helper()
	reader, err := rpc.Open(context.Background(), rpc.Options{
		Chain: chain.Config{Name: "base", ID: 8453, RPCURLs: []string{w.node.URL}, RPCTimeout: slowNode},
	})
	w.must(err)
	w.key, err = receipt.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	w.must(err)
	keys, err := receipt.NewKeyDocument(w.key, "eip155:8453")
	w.must(err)
	chains := []httpapi.Chain{{Name: "base", ID: 8453, Verifier: verification.Verifier{Reader: reader}, Heads: reader.Reached, Progress: reader.Progress}}
	chains[0].Finality = w.finality
	if w.heads != nil {
		chains[0].Heads = w.heads
	}
	if w.progress != nil {
		chains[0].Progress = w.progress
	}
	for _, name := range w.more {
		recording := chaintest.Load(w, name)
		node := chaintest.NewNode(w, recording)
		reader, err := rpc.Open(context.Background(), rpc.Options{
			Chain: chain.Config{Name: name, ID: recording.ChainID, RPCURLs: []string{node.URL}, RPCTimeout: slowNode},
		})
		w.must(err)
		chains = append(chains, httpapi.Chain{Name: name, ID: recording.ChainID, Verifier: verification.Verifier{Reader: reader}, Heads: reader.Reached, Progress: reader.Progress})
	}
	handler, err := httpapi.New(httpapi.Options{
		Chains:  chains,
		Paywall: w.paywall, Terms: paymenttest.Terms(network), Key: w.key, Keys: keys, PublicURL: publicURL,
		Health: func(context.Context) error { return w.sick }, Metrics: metrics, MCP: w.tools, Receipts: w.receipts, CheckPage: w.check, Sold: w.sold, Log: log, Now: w.clock,
	})
	w.must(err)
	w.handler = handler
	server := httptest.NewServer(handler)
	w.Cleanup(server.Close)
	w.url = server.URL
}

// sold returns an answer from the ledger by its hash.
func (w *world) sold(ctx context.Context, hash payment.Digest) (payment.Answer, error) {
	if w.beforeSold != nil {
		w.beforeSold()
	}
	sql, ok := w.ledger.(*ledger.Ledger)
	if !ok {
		return payment.Answer{}, errors.New("the ledger is no SQL")
	}
	return sql.Answer(ctx, hash)
}

// syncWriter allows many goroutines to log.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// reply is an answer that was read.
type reply struct {
	testing.TB
	status int
	header http.Header
	body   []byte
}

// do sends a request; header holds names and values in turn, and a name may
// come more than once.
func (w *world) do(method, path, body string, header ...string) reply {
	w.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, w.url+path, strings.NewReader(body))
	w.must(err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Del(header[i])
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	w.must(err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	w.must(err)
	return reply{TB: w.TB, status: response.StatusCode, header: response.Header, body: text}
}

func (w *world) post(body string, header ...string) reply {
	w.Helper()
	return w.do(http.MethodPost, base, body, header...)
}

// offer is what the challenge offers, read from it.
func (w *world) offer() payment.Offer {
	w.Helper()
	return payment.Offer{Terms: paymenttest.Terms(network), Resource: x402.Resource{URL: publicURL + base}}
}

// v2 makes the header of a version 2 payment.
func (w *world) v2(nonce string) (name, value string) {
	w.Helper()
	return x402.HeaderPaymentSignature, w.encode(paymenttest.PayloadV2(w.offer(), paymenttest.Authorization(nonce, w.clock())))
}

func (w *world) v1(nonce string) (name, value string) {
	w.Helper()
	return x402.HeaderPaymentV1, w.encode(paymenttest.PayloadV1(w.offer(), paymenttest.Authorization(nonce, w.clock())))
}

func (w *world) encode(v any) string {
	w.Helper()
	value, err := x402.Encode(v)
	w.must(err)
	return value
}

// buy posts the good body with a version 2 payment.
func (w *world) buy(nonce string) reply {
	w.Helper()
	name, value := w.v2(nonce)
	return w.post(goodBody, name, value)
}

func (w *world) wantTransfers(n int) {
	w.Helper()
	if got := w.sim.Transfers(); got != n {
		w.Errorf("%d transfers were made, want %d", got, n)
	}
}

// failure is the body of every answer that is no success.
type failure struct {
	Error             string               `json:"error"`
	Code              int                  `json:"code"`
	Reason            string               `json:"reason"`
	Retryable         *bool                `json:"retryable"`
	RetryAfterSeconds int                  `json:"retryAfterSeconds"`
	Field             string               `json:"field"`
	PaymentReason     string               `json:"paymentReason"`
	Checks            []verification.Check `json:"checks"`
}

// wantFailure checks what every failure has, and returns its body.
func (r reply) wantFailure(status int, reason string) (f failure) {
	r.Helper()
	if r.status != status {
		r.Fatalf("status is %d, want %d: %s", r.status, status, r.body)
	}
	if err := json.Unmarshal(r.body, &f); err != nil {
		r.Fatalf("%v in %s", err, r.body)
	}
	if f.Reason != reason || f.Code != status || f.Error == "" || f.Retryable == nil {
		r.Errorf("body is %s, want the reason %s", r.body, reason)
	}
	if media := r.header.Get("Content-Type"); media != "application/json" {
		r.Errorf("content type is %q", media)
	}
	if cache := r.header.Get("Cache-Control"); cache != "no-store" {
		r.Errorf("Cache-Control is %q", cache)
	}
	return f
}

// wantReceipt checks a paid answer and that anybody can verify it.
func (r reply) wantReceipt(w *world) {
	r.Helper()
	if r.status != http.StatusOK {
		r.Fatalf("status is %d: %s", r.status, r.body)
	}
	keys, err := receipt.NewKeyDocument(w.key, "eip155:8453")
	w.must(err)
	verified, err := receipt.Verify(r.body, keys)
	if err != nil {
		r.Fatalf("the receipt does not verify: %v", err)
	}
	if verified.Receipt.Transaction.Hash != recordedTx {
		r.Errorf("the receipt is about %s", verified.Receipt.Transaction.Hash)
	}
	if cache := r.header.Get("Cache-Control"); cache != "private, no-store" {
		r.Errorf("Cache-Control is %q", cache)
	}
}

// settlement reads how the payment was settled, from the header of a version.
func (r reply) settlement(header string) (s x402.SettleResponse) {
	r.Helper()
	value := r.header.Get(header)
	text, err := base64.StdEncoding.Strict().DecodeString(value)
	if err = errors.Join(err, json.Unmarshal(text, &s)); err != nil {
		r.Fatalf("%s: %q: %v", header, value, err)
	}
	return s
}

// challenge reads the version 2 challenge of a 402.
func (r reply) challenge() (c x402.PaymentRequired) {
	r.Helper()
	value := r.header.Get(x402.HeaderPaymentRequired)
	if err := x402.Decode(value, &c); err != nil {
		r.Fatalf("challenge %q: %v", value, err)
	}
	return c
}

func scriptOf(answer func(http.ResponseWriter, *http.Request, []recorded.Request) bool) chaintest.Script {
	return chaintest.Script{HTTP: answer}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// evidence measures what evidence costs that was not made before.
func (s *suite) evidence(ctx context.Context) error {
	s.page.line("\n## Evidence")
	if err := s.blocks(ctx); err != nil {
		return err
	}
	return s.roundTrips(ctx)
}

// benchmarked finds the size and the processor time in the output of a benchmark
// of Go.
var benchmarked = regexp.MustCompile(`BenchmarkProveBlock/(\d+)\S*\s.*?([\d.]+) cpu-ms/op`)

// blocks measures the proof in blocks of different sizes with the verifier's own
// benchmark: no recorded block has a thousand transactions.
func (s *suite) blocks(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "BenchmarkProveBlock", "-benchtime", "300ms", //nolint:gosec // our own module
		"-count", strconv.Itoa(s.rounds), "./internal/evm")
	cmd.Dir = filepath.Join(s.top, "services/verifier")
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("benchmark of proofs: %w: %s", err, out)
	}
	costs := map[string]samples{}
	for _, match := range benchmarked.FindAllStringSubmatch(string(out), -1) {
		took, _ := strconv.ParseFloat(match[2], 64) // digits
		costs[match[1]] = append(costs[match[1]], took)
	}
	rows := [][]string{{"transactions in the block", "ms of processor to prove one", "µs per transaction"}}
	for _, size := range []int{10, 100, 1000} {
		cost := costs[strconv.Itoa(size)]
		if len(cost) == 0 {
			return fmt.Errorf("benchmark of proofs: no block of %d: %s", size, out)
		}
		rows = append(rows, []string{count(size), cost.String(), figure(1000 * cost.median() / float64(size))})
	}
	s.page.table(rows...)
	return nil
}

// farAway is how long a distant node takes for each answer.
const farAway = 200 * time.Millisecond

// roundTrips measures paid calls whose evidence has to be fetched, with a node
// near and far.
func (s *suite) roundTrips(ctx context.Context) error {
	rows := [][]string{{"the node answers within", "a paid call with fresh evidence, ms", "requests to the node"}}
	var took samples
	for _, delay := range []time.Duration{0, farAway} {
		ms, requests, err := s.fresh(ctx, delay)
		if err != nil {
			return err
		}
		s.progress("fresh evidence, node at %v: %s ms, %s requests", delay, ms, requests)
		took = append(took, ms.median())
		rows = append(rows, []string{delay.String(), ms.String(), requests.String()})
	}
	s.page.table(rows...)
	roundTrips := samples{(took[1] - took[0]) / milli(farAway)}
	s.page.line("- Round trips that a buyer waits for: %s. Wanted %s.", figure(roundTrips[0]), atMost(2.2).met(roundTrips))
	return nil
}

// recordedTransaction is in the recorded block of Base.
const recordedTransaction = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"

// fresh buys evidence, another one each time, from a verifier that keeps no
// blocks and whose node answers late.
func (s *suite) fresh(ctx context.Context, delay time.Duration) (ms, requests samples, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, stop, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	var requested atomic.Int64
	node := lateNode(w.Chain, delay, &requested)
	defer node.Close()
	w.Extra["verifier"] = map[string]string{
		"CHAIN_NAME": "base", "CHAIN_ID": "8453", "CHAIN_RPC_URLS": node.URL, "CHAIN_CACHE_BYTES": "1",
		"PAYMENT_CONFIRM": "facilitator", // whose transfers are on no chain
	}
	if err := serve(ctx, w.Facilitator, facilitator()); err != nil {
		return nil, nil, err
	}
	if err := w.start(ctx, w.recordedNode(), w.Verifier()); err != nil {
		return nil, nil, err
	}
	for i := range s.rounds + 1 {
		body := fmt.Sprintf(`{"transactionHash":%q,"expectations":{"minConfirmations":%d}}`, recordedTransaction, i+1)
		offer, err := offerOf(ctx, w.Addresses.Verifier, body)
		if err != nil {
			return nil, nil, err
		}
		header, err := payment(offer)
		if err != nil {
			return nil, nil, err
		}
		before, began := requested.Load(), time.Now()
		answer, err := call(ctx, w.Addresses.Verifier, http.MethodPost, verifyPath, body, header, nil)
		if err == nil && answer.Get(x402.HeaderPaymentResponse) == "" {
			err = errors.New("a payment was refused")
		}
		if err != nil {
			return nil, nil, err
		}
		if i > 0 { // the first one connects
			ms, requests = append(ms, milli(time.Since(began))), append(requests, float64(requested.Load()-before))
		}
	}
	return ms, requests, nil
}

// lateNode stands before a node and delays each answer. It counts the requests
// for more than the chain's heads, which the verifier reads all the time.
func lateNode(addr string, delay time.Duration, requested *atomic.Int64) *httptest.Server {
	evidence := regexp.MustCompile("getTransactionBy|getTransactionReceipt|getBlockReceipts|getBlockByHash")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		if evidence.Match(body) {
			requested.Add(1)
		}
		time.Sleep(delay)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
}

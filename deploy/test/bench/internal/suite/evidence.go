package suite

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/bench/internal/facilitator"
	"github.com/pforte/pforte/pkg/x402"
)

// evidence measures what evidence costs that was not made before.
func (s *Suite) evidence(ctx context.Context, p *page) error {
	p.line("\n## Evidence")
	if err := s.blocks(ctx, p); err != nil {
		return err
	}
	return s.roundTrips(ctx, p)
}

// benchmarked finds the size and the processor time in the output of a benchmark
// of Go.
var benchmarked = regexp.MustCompile(`BenchmarkProveBlock/(\d+)\S*\s.*?([\d.]+) cpu-ms/op`)

// blocks measures the proof in blocks of different sizes, which the verifier's
// own benchmark makes: no recorded block has a thousand transactions.
func (s *Suite) blocks(ctx context.Context, p *page) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "BenchmarkProveBlock", "-benchtime", "300ms", //nolint:gosec // our own module
		"-count", strconv.Itoa(s.Rounds), "./internal/evm")
	cmd.Dir = filepath.Join(s.Top, "services/verifier")
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("benchmark of proofs: %w: %s", err, out)
	}
	costs := map[int]samples{}
	for _, match := range benchmarked.FindAllStringSubmatch(string(out), -1) {
		size, _ := strconv.Atoi(match[1])           // digits
		took, _ := strconv.ParseFloat(match[2], 64) // digits
		costs[size] = append(costs[size], took)
	}
	rows := [][]string{{"transactions in the block", "ms of processor to prove one", "µs per transaction"}}
	for _, size := range []int{10, 100, 1000} {
		if len(costs[size]) == 0 {
			return fmt.Errorf("benchmark of proofs: no block of %d: %s", size, out)
		}
		rows = append(rows, []string{count(size), costs[size].String(), figure(1000 * costs[size].median() / float64(size))})
	}
	p.table(rows...)
	return nil
}

// farAway is how long a distant node takes for each answer.
const farAway = 200 * time.Millisecond

// roundTrips measures paid calls whose evidence has to be asked for, with a node
// near and far.
func (s *Suite) roundTrips(ctx context.Context, p *page) error {
	rows := [][]string{{"the node answers within", "a paid call with fresh evidence, ms", "requests to the node"}}
	var took []samples
	for _, delay := range []time.Duration{0, farAway} {
		ms, requests, err := s.fresh(ctx, delay)
		if err != nil {
			return err
		}
		s.progress("fresh evidence, node at %v: %s ms, %s requests", delay, ms, requests)
		took = append(took, ms)
		rows = append(rows, []string{delay.String(), ms.String(), requests.String()})
	}
	p.table(rows...)
	trips := samples{(took[1].median() - took[0].median()) / milli(farAway)}
	p.line("- Round trips that a buyer waits for: %s. Wanted %s.", figure(trips[0]), atMost(2.2).met(trips))
	return nil
}

// fresh buys evidence, another one each time, from a verifier that keeps no
// blocks and whose node answers late.
func (s *Suite) fresh(ctx context.Context, delay time.Duration) (ms, requests samples, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := s.open(ctx, "evidence")
	if err != nil {
		return nil, nil, err
	}
	defer w.close(ctx)
	node := newLateNode("http://"+w.Chain, delay)
	defer node.Close()
	w.Extra["verifier"] = map[string]string{
		"CHAIN_NAME": "base", "CHAIN_ID": "8453", "CHAIN_RPC_URLS": node.URL, "CHAIN_CACHE_BYTES": "1",
		"PAYMENT_CONFIRM": "facilitator", // whose transfers are on no chain
	}
	if err := (&facilitator.Server{Network: layout.Network, Payer: payer}).Serve(ctx, w.Layout.Facilitator); err != nil {
		return nil, nil, err
	}
	if err := w.Start(ctx, within, w.recordedNode()); err != nil {
		return nil, nil, err
	}
	if err := w.Start(ctx, within, w.Layout.Verifier()); err != nil {
		return nil, nil, err
	}
	for i := range s.Rounds + 1 {
		body := fmt.Sprintf(`{"transactionHash":%q,"expectations":{"minConfirmations":%d}}`, recordedTransaction, i+1)
		offer, err := challenge(ctx, w.Addresses.Verifier, body)
		if err != nil {
			return nil, nil, err
		}
		asked := node.evidence.Load()
		began := time.Now()
		if err := s.buy(ctx, w.Addresses.Verifier, body, offer); err != nil {
			return nil, nil, err
		}
		if i > 0 { // the first one dials
			ms, requests = append(ms, milli(time.Since(began))), append(requests, float64(node.evidence.Load()-asked))
		}
	}
	return ms, requests, nil
}

// recordedTransaction is in the recorded block of Base.
const recordedTransaction = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"

// buy makes one paid call.
func (s *Suite) buy(ctx context.Context, addr, body string, offer x402.PaymentRequired) error {
	header, err := paymentFor(offer, s.Now())
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+verifyPath, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(x402.HeaderPaymentSignature, header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("buy evidence: %s: %s, %w", resp.Status, text, err)
	}
	return nil
}

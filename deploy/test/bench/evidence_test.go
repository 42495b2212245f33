package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// evidence measures what evidence costs that was not made before.
func (s *suite) evidence() {
	s.line("\n## Evidence\n\nThe proof of one transaction by the verifier's own benchmark, on one core: no recorded block has a thousand transactions.")
	s.cells(s.blocks()...)
	s.line("\nPaid calls whose evidence is not kept, with a node that answers %v late and with one that answers at once.", farAway)
	s.section("round trips", (*suite).roundTrips)
}

// benchmarked finds the size and the processor time in the output of the benchmark.
var benchmarked = regexp.MustCompile(`BenchmarkProveBlock/(\d+)\S*\s.*?([\d.]+) cpu-ms/op`)

// blocks measures proofs in blocks of different sizes.
func (s *suite) blocks() [][]string {
	out := s.run(stack.Program{Path: "go", Env: append(os.Environ(), "GOWORK=off")}, "test", "-C", filepath.Join(s.top, "services/verifier"),
		"-run", "^$", "-bench", "BenchmarkProveBlock", "-benchtime", "300ms", "-count", strconv.Itoa(s.rounds), "./internal/evm")
	costs := map[string]samples{}
	for _, match := range benchmarked.FindAllStringSubmatch(string(out), -1) {
		took, err := strconv.ParseFloat(match[2], 64)
		s.must(err)
		costs[match[1]] = append(costs[match[1]], took)
	}
	lines := [][]string{{"transactions in the block", "ms of processor to prove one", "µs per transaction"}}
	for _, size := range []int{10, 100, 1000} {
		cost := costs[strconv.Itoa(size)]
		if len(cost) == 0 {
			s.Fatalf("no proof in a block of %d: %s", size, out)
		}
		s.progress("proof in a block of %d: %s ms of processor", size, cost)
		lines = append(lines, []string{count(size), cost.String(), figure(1000 * cost.median() / float64(size))})
	}
	return lines
}

// farAway is how long a distant node takes for each answer.
const farAway = 200 * time.Millisecond

// roundTrips measures how many answers of the node a paid call waits for.
func (s *suite) roundTrips() {
	near, nearRequests := s.fresh(0)
	far, farRequests := s.fresh(farAway)
	trips := far.pair(near, func(far, near float64) float64 { return (far - near) / milli(farAway) })
	s.table("near",
		row{what: "a paid call with fresh evidence", unit: "ms", ours: far, beside: near},
		row{what: "requests to the node", ours: farRequests, beside: nearRequests},
		row{what: "round trips to the node for each answer", ours: trips, goal: atMost(2.2)})
}

// fresh buys evidence, another one each time, from a verifier that keeps no blocks
// and whose node answers late. It returns how long each call took, in milliseconds,
// and how many requests for evidence the node got.
func (s *suite) fresh(delay time.Duration) (took, requests samples) {
	w := s.open(s.bin)
	var received atomic.Int64
	node := lateNode(w.Chain, delay, &received)
	s.Cleanup(node.Close)
	w.Extra["verifier"]["CHAIN_RPC_URLS"], w.Extra["verifier"]["CHAIN_CACHE_BYTES"] = node.URL, "1"
	w.facilitator.serve(w)
	w.start(w.recordedNode(), w.Verifier())
	for i := range s.rounds + 1 {
		w.order = fmt.Sprintf(`{"transactionHash":%q,"expectations":{"minConfirmations":%d}}`, recordedTransaction, i+1)
		c := w.cell(paid, w.Addresses.Verifier)
		purchase := c.payments(1)[0]
		before, began := received.Load(), time.Now()
		s.must(first(s.Context(), c, purchase))
		if i > 0 { // the first one connects
			took, requests = append(took, milli(time.Since(began))), append(requests, float64(received.Load()-before))
		}
	}
	s.progress("fresh evidence, node at %v: %s ms, %s requests", delay, took, requests)
	return took, requests
}

// recordedTransaction is in the recorded block of Base.
const recordedTransaction = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"

// aboutEvidence finds requests for more than the chain's heads, which the verifier
// reads all the time.
var aboutEvidence = regexp.MustCompile("getTransactionBy|getTransactionReceipt|getBlockReceipts|getBlockByHash")

// lateNode stands before a node, delays each answer, and counts the requests for
// evidence.
func lateNode(addr string, delay time.Duration, received *atomic.Int64) *httptest.Server {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		if aboutEvidence.Match(body) {
			received.Add(1)
		}
		time.Sleep(delay)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
}

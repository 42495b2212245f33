package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
)

// tools measures what agents use: purchases by tool, proofs of transfers, and clients
// that are slow.
func (s *suite) tools() {
	s.line("\n## Tools for agents\n\nCalls of tools at `/mcp` (Model Context Protocol), through the proxy.")
	s.section("sales", (*suite).toolSales)
	s.section("transfers", (*suite).transfers)
	s.section("slow clients", (*suite).slowClients)
}

// toolSales compares a purchase by tool with the same one over HTTP.
func (s *suite) toolSales() {
	w := s.open(s.bin)
	w.startAll()
	pids := w.pids("proxy", "verifier")
	overHTTP, byTool := w.cell(paid, w.Addresses.Proxy, pids...), w.cell(paidTool, w.Addresses.Proxy, pids...)
	r := s.compare(overHTTP, byTool)
	if sold := len(w.facilitator.settlements()); sold < r[0].answers+r[1].answers { // an error of a tool has status 200
		s.Fatalf("of %d answers only %d were sold", r[0].answers+r[1].answers, sold)
	}
	s.table("over HTTP", append(r[1].beside(string(paidTool), r[0], goal{}, goal{}),
		row{what: "payments not counted once by facilitator and ledger", ours: samples{w.miscounted()}, goal: atMost(0)})...)
}

// transferred is a transfer of USDC in block 18,000,000 of Ethereum, with a place for
// the confirmations.
const transferred = `{"transactionHash":"0x513a4abc759c2d30fd7f5a7e5239e72fccc1b24491b1ed99fa9f24b96e36fc88",` +
	`"transfer":{"token":"0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48","to":"0x91a559d248a216d1dd17c4d39f51bda9bd1de7e2","amount":"1800000000"},` +
	`"expectations":{"minConfirmations":%d}}`

// purchases is how many calls a p50 is that of.
const purchases = 30

// transferBenchmarked finds the case and the p50 in the output of the benchmark.
var transferBenchmarked = regexp.MustCompile(`BenchmarkProveTransfer/([a-z]+)\S*\s.*?([\d.]+) p50-ms`)

// transfers measures what the proof of a transfer adds to an answer that is kept.
func (s *suite) transfers() {
	out := s.run(stack.Program{Path: "go", Env: append(os.Environ(), "GOWORK=off")}, "test", "-C", filepath.Join(s.top, "services/verifier"),
		"-run", "^$", "-bench", "BenchmarkProveTransfer", "-benchtime", "300ms", "-count", strconv.Itoa(s.rounds), "./internal/evm")
	took := map[string]samples{}
	for _, match := range transferBenchmarked.FindAllStringSubmatch(string(out), -1) {
		p50, err := strconv.ParseFloat(match[2], 64)
		s.must(err)
		took[match[1]] = append(took[match[1]], p50)
	}
	proof, none := took["proof"], took["none"]
	if len(proof) == 0 || len(none) == 0 {
		s.Fatalf("no proof of a transfer: %s", out)
	}
	s.progress("proof of a transfer in a block of 150: p50 %s ms", proof)
	proven, kept := s.transferCalls()
	more := func(proof, none float64) float64 { return proof - none }
	s.line("\nA transfer is proven from what the nodes report of its whole block. The first line is the verifier's own benchmark, from that report to the signed answer, in a block of 150 transactions made of\n" +
		"two recorded ones; the second is a paid call of the whole verifier, with a node on the same machine, about a recorded block of 94. Beside each is an answer that is kept.")
	s.table("no proof",
		row{what: "proof of a transfer in a block of 150, p50", unit: "ms", ours: proof, beside: none},
		row{what: "more than with no proof", unit: "ms", ours: proof.pair(none, more), goal: atMost(10)},
		row{what: fmt.Sprintf("paid call about a transfer in a block of 94, p50 of %d", purchases), unit: "ms", ours: proven, beside: kept},
		row{what: "more than with no proof", unit: "ms", ours: proven.pair(kept, more)})
}

// transferCalls buys evidence about a transfer from a verifier that keeps no blocks:
// another question each time, and in turns with it one whose answer is kept. It
// returns the p50 of the calls of each round, in milliseconds.
func (s *suite) transferCalls() (proven, kept samples) {
	w := s.open(s.bin)
	const number = 18_000_000
	w.Extra["verifier"]["CHAIN_NAME"], w.Extra["verifier"]["CHAIN_ID"], w.Extra["verifier"]["CHAIN_CACHE_BYTES"] = "ethereum", "1", "1"
	w.facilitator.serve(w)
	w.start(fixture.RecordedNode(w.Layout, "node", filepath.Join(w.top, "pkg/receipt/testdata/blocks/ethereum-18000000.json.gz"), w.Chain, number+50_000, number+50_000), w.Verifier())
	w.path = "/v1/verify/ethereum-token-transfer"
	asked := 1
	for range s.rounds {
		var fresh, again samples
		for i := range purchases + 1 {
			asked++
			for confirmations, into := range map[int]*samples{1: &again, asked: &fresh} {
				w.order = fmt.Sprintf(transferred, confirmations)
				c := w.cell(paid, w.Addresses.Verifier)
				purchase := c.payments(1)[0]
				began := time.Now()
				s.must(first(s.Context(), c, purchase))
				if i > 0 { // the first ones connect, and leave the answer that is kept
					*into = append(*into, milli(time.Since(began)))
				}
			}
		}
		proven, kept = append(proven, fresh.median()), append(kept, again.median())
		s.progress("paid call about a transfer: p50 %s ms, of a kept answer %s ms", figure(fresh.median()), figure(again.median()))
	}
	return proven, kept
}

const (
	// slowOnes is how many slow clients there are at once.
	slowOnes = 100
	// slowFor is how long each of them stands still.
	slowFor = 2 * time.Second
	// large is about the longest body for which the proxy has a place for each of them.
	large = 60 << 10
)

// slowClients measures the memory that clients take which send or read slowly.
func (s *suite) slowClients() {
	programs := []string{"proxy", "verifier"}
	loads := []struct {
		what string
		// unsent is how many bytes of its message a client holds back.
		unsent  int
		message func(w *world) []byte
	}{
		{"that have sent all but the last byte of 60 KB", 1, func(*world) []byte {
			return toolCall("check_receipt", `{"answer":"`+strings.Repeat("x", large)+`"}`, `{}`)
		}},
		{"that do not read the answer they have bought", 0, func(w *world) []byte {
			bought := w.toolPayments(w.Addresses.Proxy, 1)[0]
			w.must(first(w.Context(), w.cell(paidTool, w.Addresses.Proxy), bought))
			return bought
		}},
	}
	var rows []row
	for _, load := range loads {
		idle, peak := map[string]samples{}, map[string]samples{}
		for range s.rounds {
			w := s.open(s.bin)
			w.startAll()
			message := load.message(w)
			time.Sleep(slowFor) // what a start needs for a moment is given back
			w.memory("VmRSS", programs, idle)
			w.must(slowly(w.Context(), w.Addresses.Proxy, message, load.unsent))
			w.memory("VmHWM", programs, peak)
			w.Stop()
		}
		for _, name := range programs {
			s.progress("%d clients %s: %s %s MB", slowOnes, load.what, name, peak[name])
			rows = append(rows, row{what: fmt.Sprintf("%s: %d clients %s", name, slowOnes, load.what), unit: "MB", ours: peak[name], beside: idle[name], ratio: peak[name].over(idle[name])})
		}
	}
	s.line("\nThe most memory that each program had, beside what it has idle.")
	s.table("idle", rows...)
}

// slowly sends a message from many clients at once, who hold back its last bytes and
// then do not read the answer for some time. It returns an error unless all are
// answered in the end.
func slowly(ctx context.Context, addr string, message []byte, unsent int) error {
	faults := make([]error, slowOnes)
	var all sync.WaitGroup
	for i := range faults {
		all.Go(func() { faults[i] = slow(ctx, addr, message, unsent) })
	}
	all.Wait()
	return errors.Join(faults...)
}

// slow is one of them.
func slow(ctx context.Context, addr string, message []byte, unsent int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetReadBuffer(4 << 10) // so that the kernel does not read for the client
	}
	sent := len(message) - unsent
	if err == nil {
		_, err = conn.Write(message[:sent])
	}
	time.Sleep(slowFor)
	if err == nil {
		_, err = conn.Write(message[sent:])
	}
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || bytes.Contains(body, failedTool)) {
		err = fmt.Errorf("a slow client gets %s: %.300s", resp.Status, body)
	}
	return err
}

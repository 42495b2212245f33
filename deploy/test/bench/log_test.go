package bench

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// receiptLog measures what the log of receipts costs a sale, and when a receipt that was
// sold has a proof.
func (s *suite) receiptLog() {
	s.line("\n## The log of receipts\n\nThe writes of a sale are those of the verifier's own benchmark; Postgres does not wait for its disk. With paid calls, one client buys the same receipt again and again,\n"+
		"which is queued for the log each time, and of %d clients each call buys another one. The witnesses are two programs on the same machine.", clients)
	s.section("writes", (*suite).loggedWrites)
	s.section("sales", (*suite).loggedSales)
	s.section("proofs", (*suite).logProofs)
}

// saleBenchmarked finds the database and the figures in the output of the benchmark.
var saleBenchmarked = regexp.MustCompile(`BenchmarkSale/([a-z]+)\S*\s(.*)`)

// databases are those of a benchmark by their names there.
var databases = map[string]string{"sqlite": "SQLite", "postgres": "Postgres"}

// loggedWrites compares the writes of a sale with a log, and with none, in one process.
func (s *suite) loggedWrites() {
	out := s.run(stack.Program{Path: "go", Env: append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")}, "test", "-C", filepath.Join(s.top, "services/verifier"),
		"-run", "^$", "-bench", "BenchmarkSale", "-benchtime", "1000x", "-count", strconv.Itoa(s.rounds), "./internal/payment/ledger")
	with, without, more := map[string]samples{}, map[string]samples{}, map[string]samples{}
	for _, match := range saleBenchmarked.FindAllStringSubmatch(string(out), -1) {
		found := s.figures(match[2])
		name := match[1]
		with[name], without[name], more[name] = append(with[name], found["µs/logged-sale"]), append(without[name], found["µs/sale"]), append(more[name], found["µs-more"])
	}
	var rows []row
	for _, name := range []string{"sqlite", "postgres"} {
		if len(more[name]) == 0 {
			s.Fatalf("no sale was measured: %s", out)
		}
		s.progress("writes of a sale, %s: %s µs more with the log", databases[name], more[name])
		rows = append(rows,
			row{what: "writes of a sale, " + databases[name] + ", p50", unit: "µs", ours: with[name], beside: without[name]},
			row{what: "more than without the log", unit: "µs", ours: more[name], goal: atMost(50)})
	}
	s.table("without the log", rows...)
}

// measuredFigure is a figure with its unit in a line of a benchmark.
var measuredFigure = regexp.MustCompile(`([\d.]+) (\S+)`)

// figures returns the figures of a line of a benchmark by their units.
func (s *suite) figures(line string) map[string]float64 {
	found := map[string]float64{}
	for _, each := range measuredFigure.FindAllStringSubmatch(line, -1) {
		value, err := strconv.ParseFloat(each[1], 64)
		s.must(err)
		found[each[2]] = value
	}
	return found
}

// loggedSales compares paid calls with a log, and with none.
func (s *suite) loggedSales() {
	var with, without *world
	var many, one []cell
	for _, w := range []**world{&with, &without} {
		*w = s.open(s.bin)
		(*w).Layout.Log = *w == with
		(*w).sellDistinct(0)
		load := (*w).distinct((*w).Addresses.Verifier, (*w).pids("verifier")...)
		many = append(many, load)
		load.clients, load.name = 1, load.name+", one client"
		load.payments = func(n int) [][]byte { return (*w).payments((*w).Addresses.Verifier, n/4) }
		one = append(one, load)
	}
	single := s.compare(one...)
	r := s.compare(many...)
	micro := func(ms samples) (us samples) {
		for _, each := range ms {
			us = append(us, 1000*each)
		}
		return us
	}
	more := func(with, without float64) float64 { return with - without }
	s.table("without the log", slices.Concat(
		[]row{
			{what: "paid call, one client, p50", unit: "µs", ours: micro(single[0].p50), beside: micro(single[1].p50)},
			{what: "more than without the log", unit: "µs", ours: micro(single[0].p50).pair(micro(single[1].p50), more), goal: atMost(50)},
		},
		r[0].beside(fmt.Sprintf("paid call, %d clients", clients), r[1], goal{}, goal{}))...)
}

// sellDistinct starts a verifier of a chain whose head is far from its one block, so that
// each number of confirmations is another question, and its witnesses, which answer late.
func (w *world) sellDistinct(late time.Duration) {
	w.Helper()
	if w.Layout.Log {
		w.must(w.Prepare())
		w.startWitnesses(late)
	}
	w.facilitator.serve(w)
	w.start(fixture.RecordedNode(w.Layout, "node", filepath.Join(w.top, "pkg/receipt/testdata/blocks/base-mainnet-2000000.json.gz"), w.Chain, headOfAll, headOfAll), w.Verifier())
}

// startWitnesses starts the witnesses of the log, each behind a server at its address in
// the policy that delays every answer.
func (w *world) startWitnesses(late time.Duration) {
	w.Helper()
	addrs, err := freeport.Addrs(w.Context(), 2)
	w.must(err)
	behind := w.Layout
	behind.Witness1, behind.Witness2 = addrs[0], addrs[1]
	programs, err := behind.Witnesses()
	w.must(err)
	for i, addr := range []string{w.Witness1, w.Witness2} {
		programs[i].Ready = stack.Listening(addrs[i])
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addrs[i]})
		l, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", addr)
		w.must(err)
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			time.Sleep(late)
			proxy.ServeHTTP(out, r)
		})}
		w.Cleanup(func() { _ = server.Close() })
		go func() { _ = server.Serve(l) }() // until it is closed
	}
	w.start(programs...)
}

const (
	// headOfAll is the chain's head, which has more confirmations than are asked for.
	headOfAll = 4_000_000
	// mostAsked is the largest number of confirmations that a question may ask for.
	mostAsked = 100_000
)

// questions counts what was asked, in all worlds.
var questions atomic.Int64

// distinct is a load of paid calls of which each buys another receipt.
func (w *world) distinct(addr string, pids ...int) cell {
	c := w.cell(paid, addr, pids...)
	c.name = map[bool]string{true: "paid call with the log", false: "paid call without"}[w.Layout.Log]
	c.payments = func(n int) [][]byte {
		return w.signed(addr, n, func(p client.Payment) ([]byte, error) {
			body := fmt.Sprintf(`{"transactionHash":%q,"expectations":{"minConfirmations":%d}}`, recordedTransaction, 1+questions.Add(1)%mostAsked)
			return request(http.MethodPost, w.path, body, http.Header{p.Header: {p.Value}}), nil
		})
	}
	return c
}

const (
	// witnessesAway is how long the witnesses take for an answer.
	witnessesAway = 200 * time.Millisecond
	// proofsEvery is the time between two sales. It is no part of a second, so that
	// they come at all times between two checkpoints.
	proofsEvery = 137 * time.Millisecond
)

// logProofs measures how long after a sale its receipt has a proof, and the proof.
func (s *suite) logProofs() {
	w := s.open(s.bin)
	w.Layout.Log = true
	w.sellDistinct(witnessesAway)
	text, err := os.ReadFile(w.LogPolicy())
	s.must(err)
	policy, err := receiptlog.ParsePolicy(text)
	s.must(err)
	var p50, p95, sizes, checking, serving samples
	for range s.rounds {
		c := w.distinct(w.Addresses.Verifier)
		purchases := c.payments(50)
		results := make([]logged, len(purchases))
		var all sync.WaitGroup
		for i, purchase := range purchases {
			time.Sleep(proofsEvery)
			all.Go(func() { results[i] = w.proven(c, purchase) })
		}
		all.Wait()
		var waited, checked, bytes, served samples
		for _, r := range results {
			s.must(r.err)
			began := time.Now()
			found, err := receiptlog.Included(r.document, r.proof, policy)
			s.must(err)
			checked = append(checked, 1000*milli(time.Since(began)))
			if len(found.Cosignatures) != 2 {
				s.Fatalf("a proof by %d witnesses", len(found.Cosignatures))
			}
			waited, bytes, served = append(waited, r.waited.Seconds()), append(bytes, float64(len(r.proof))), append(served, r.served)
		}
		p50, p95 = append(p50, waited.median()), append(p95, waited.quantile(.95))
		checking, sizes, serving = append(checking, checked.median()), append(sizes, bytes.median()), append(serving, served.median())
		s.progress("a proof after %s s, p95 %s s", figure(waited.median()), figure(waited.quantile(.95)))
	}
	s.line("\nHow long after its answer a receipt has a proof with two cosignatures, by witnesses that take %v for each answer, and what such a proof takes.", witnessesAway)
	s.table("",
		row{what: "from the answer to the proof, p50", unit: "s", ours: p50},
		row{what: "from the answer to the proof, p95", unit: "s", ours: p95, goal: atMost(3)},
		row{what: "a proof", unit: "bytes", ours: sizes},
		row{what: "to serve it", unit: "ms", ours: serving, goal: atMost(2)},
		row{what: "to check it, with its cosignatures", unit: "µs", ours: checking})
}

// logged is a receipt that was sold, and its proof.
type logged struct {
	document receipt.Document
	proof    []byte
	waited   time.Duration // from the answer to the proof
	served   float64       // milliseconds that the answer with the proof took
	err      error
}

// proven buys, and asks for the proof until there is one.
func (w *world) proven(c cell, purchase []byte) (r logged) {
	answer, err := alone(w.Context(), c, purchase)
	sold := time.Now()
	if err == nil {
		r.document, err = receipt.Parse(answer)
	}
	var entry receiptlog.Entry
	if err == nil {
		entry, err = receiptlog.EntryOf(r.document)
	}
	leaf := entry.Leaf()
	for status := 0; err == nil && status != http.StatusOK; {
		if time.Since(sold) > time.Minute {
			return logged{err: fmt.Errorf("no proof of a receipt after a minute: %d", status)}
		}
		began := time.Now()
		status, r.proof, err = get(w.Context(), "http://"+c.addr+"/v1/log/1/proof/"+hex.EncodeToString(leaf[:]))
		r.waited, r.served = time.Since(sold), milli(time.Since(began))
		if status != http.StatusOK {
			time.Sleep(10 * time.Millisecond)
		}
	}
	r.err = err
	return r
}

// get returns status and body of an answer.
func get(ctx context.Context, address string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(response.Body, receiptlog.MaxProof))
	return response.StatusCode, body, err
}

// grownBenchmark finds database, size and figures in the output of the benchmark.
var grownBenchmark = regexp.MustCompile(`BenchmarkGrown/([a-z]+)/(\d+)\S*\s(.*)`)

// logGrows measures the log as it grows, by the verifier's own benchmark.
func (s *suite) logGrows() {
	sizes := "10{4,7}$" // 10,000, 1,000,000 and 10,000,000
	if s.most < 1_000_000 {
		sizes = "10{4}$"
	}
	out := s.run(stack.Program{Path: "go", Env: append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")}, "test", "-C", filepath.Join(s.top, "services/verifier"),
		"-run", "^$", "-bench", "BenchmarkGrown/.*/"+sizes, "-benchtime", "1x", "./internal/translog")
	lines := [][]string{{"database, entries", "entries placed a second", "a proof, µs", "bytes", "a tile, µs", "256 entries, µs", "bytes of the database for an entry"}}
	for _, match := range grownBenchmark.FindAllStringSubmatch(string(out), -1) {
		found := s.figures(match[3])
		size, err := strconv.Atoi(match[2])
		s.must(err)
		line := []string{databases[match[1]] + ", " + count(size)}
		for _, unit := range []string{"entries/s", "µs/proof", "bytes/proof", "µs/tile", "µs/bundle", "bytes/entry"} {
			line = append(line, figure(found[unit]))
		}
		lines = append(lines, line)
	}
	if len(lines) < 3 {
		s.Fatalf("no log was measured: %s", out)
	}
	s.line("\n## The log of receipts as it grows\n\nBy the verifier's own benchmark, once: a log that is filled with random entries. What a proof, a tile and 256 entries take is the median inside the verifier,\n"+
		"without HTTP. Entries are placed in writes that are on disk (Postgres does not wait for its disk here), of %d on SQLite, where sales wait for them, and of %d on Postgres.", 100, 1000)
	s.cells(lines...)
}

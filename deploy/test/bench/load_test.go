package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed" // load.lua
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

const (
	// clients is how many clients a load has, which keeps every server busy.
	clients = 64
	// loggingIn is how many of them log in at once.
	loggingIn = 4
	// paymentsPerSecond is how many payments are signed for each second of a turn,
	// before it, which is more than any server sells.
	paymentsPerSecond = 6_000
)

// script makes wrk send the requests of a file.
//
//go:embed load.lua
var script []byte

// counts is what wrk measured.
type counts struct {
	Answers, Microseconds, Refused, Failed int
	P50, P99                               float64 // microseconds
}

// kind is what the clients of a load do.
type kind string

const (
	me     kind = "`GET /me`"
	login  kind = "`POST /login`"
	unpaid kind = "unpaid call, 402"
	paid   kind = "paid call"
	// paidTool buys by the Model Context Protocol.
	paidTool kind = "paid call of a tool"
)

// kinds are those that every server is asked for.
var kinds = []kind{me, login, unpaid, paid}

// service is the one that a kind of load needs.
func (k kind) service() string {
	if k == me || k == login || k == guarded {
		return "auth"
	}
	return "verifier"
}

// cell is one server under one load.
type cell struct {
	name, addr string
	// pids are the processes whose work is measured.
	pids []int
	// clients is how many clients there are, each with one request under way.
	clients int
	// status is that of every answer.
	status int
	// requests are sent one after the other, and then from the first again.
	requests [][]byte
	// payments, where it is set, makes requests of which none may be sent twice.
	payments func(n int) [][]byte
	// perSecond is how many payments there are for each second; 0: paymentsPerSecond.
	perSecond int
}

// cell returns the load of a kind on a server: every client has its own session or
// its own payments.
func (w *world) cell(k kind, addr string, pids ...int) cell {
	c := cell{name: string(k) + " at " + addr, addr: addr, pids: pids, clients: clients, status: http.StatusOK}
	switch k {
	case me:
		c.requests = w.me(addr)
	case login:
		name := layout.AdminName
		if addr == w.Addresses.Auth || addr == w.Addresses.Proxy {
			name = w.visitor()
		}
		credentials := fmt.Sprintf(`{"username":%q,"password":%q}`, name, w.password)
		c.clients, c.requests = loggingIn, [][]byte{request(http.MethodPost, loginPath, credentials, nil)}
	case unpaid:
		c.status, c.requests = http.StatusPaymentRequired, [][]byte{request(http.MethodPost, w.path, w.order, nil)}
	case paid:
		c.payments = func(n int) [][]byte { return w.payments(addr, n) }
	case paidTool:
		c.payments = func(n int) [][]byte { return w.toolPayments(addr, n) }
	}
	return c
}

// wrk puts the load on the server for whole seconds.
func (s *suite) wrk(c cell, requests [][]byte, duration time.Duration) (r counts, err error) {
	folder := s.TempDir()
	lua, file := filepath.Join(folder, "load.lua"), filepath.Join(folder, "requests")
	if err := errors.Join(os.WriteFile(lua, script, 0o600), os.WriteFile(file, bytes.Join(requests, []byte{0}), 0o600)); err != nil {
		return r, err
	}
	out, err := command(s.Context(), stack.Program{Path: "wrk"}, "--threads", "1", "--connections", strconv.Itoa(c.clients), "--timeout", "30s",
		"--duration", strconv.Itoa(int(duration.Seconds()))+"s", "--script", lua, "http://"+c.addr, "--", file)
	if err != nil {
		return r, err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		return r, fmt.Errorf("wrk: %w: %s", err, out)
	}
	refusals := 0
	if c.status >= http.StatusBadRequest {
		refusals = r.Answers
	}
	switch {
	case r.Answers == 0 || r.Failed > 0 || r.Refused != refusals:
		return r, fmt.Errorf("%s: of %d answers %d were above 399, and %d requests failed", c.name, r.Answers, r.Refused, r.Failed)
	case c.payments != nil && r.Answers+c.clients > len(requests):
		return r, fmt.Errorf("%s: %d answers are more than %d payments can have", c.name, r.Answers, len(requests))
	}
	return r, os.Remove(file)
}

// first sends a request alone and checks the status of its answer.
func first(ctx context.Context, c cell, text []byte) error {
	_, err := alone(ctx, c, text)
	return err
}

// alone sends a request alone and returns the body of its answer.
func alone(ctx context.Context, c cell, text []byte) ([]byte, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(text); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != c.status || bytes.Contains(body, failedTool) {
		return nil, fmt.Errorf("%s: %s, not %d: %.600s, %w", c.name, resp.Status, c.status, body, err)
	}
	return body, nil
}

// failedTool is in the answer of a tool that failed, whose status is 200.
var failedTool = []byte(`"isError":true`)

// rounds are the figures of a cell's turns.
type rounds struct {
	// answers is how many there were.
	answers int
	// rate is in answers a second, cost in microseconds of processor time for an
	// answer, and p50 and p99 in milliseconds.
	rate, cost, p50, p99 samples
}

// beside compares all figures. There may be goals for the ratios of the first two.
func (r rounds) beside(what string, other rounds, rate, cost goal) []row {
	return []row{
		faster(what, r.rate, other.rate, rate),
		sooner(what, "µs of processor", r.cost, other.cost, cost),
		sooner(what, "ms, p50", r.p50, other.p50, goal{}),
		sooner(what, "ms, p99", r.p99, other.p99, goal{}),
	}
}

// turns is how many turns compared servers have for one round of other figures:
// the machine's speed changes within seconds, and by more than the difference
// between some of them.
const turns = 3

// compare puts the load on one cell after the other, again and again, so that
// their figures can be divided turn by turn.
func (s *suite) compare(cells ...cell) []rounds {
	results := make([]rounds, len(cells))
	for n := range turns*s.rounds + 1 {
		for i, c := range cells {
			s.turn(c, time.Second, &results[i])
		}
		if n == 0 { // connections and compilers are warm after the first turn
			clear(results)
		}
	}
	return results
}

// requestsFor returns what the clients of a cell send within a time.
func (c cell) requestsFor(duration time.Duration) [][]byte {
	if c.payments == nil {
		return c.requests
	}
	return c.payments(int(float64(cmp.Or(c.perSecond, paymentsPerSecond)) * duration.Seconds()))
}

// turn runs one cell once and adds its figures.
func (s *suite) turn(c cell, duration time.Duration, into *rounds) {
	s.Helper()
	requests := c.requestsFor(duration)
	s.must(first(s.Context(), c, requests[0]))
	if c.payments != nil {
		requests = requests[1:]
	}
	before := s.processorTime(c.pids)
	r, err := s.wrk(c, requests, duration)
	s.must(err)
	into.answers += r.Answers
	rate, cost := float64(r.Answers)/float64(r.Microseconds)*1e6, float64((s.processorTime(c.pids)-before).Microseconds())/float64(r.Answers)
	into.rate, into.cost = append(into.rate, rate), append(into.cost, cost)
	into.p50, into.p99 = append(into.p50, r.P50/1000), append(into.p99, r.P99/1000)
	s.progress("%s: %s/s, %s µs, p50 %s ms", c.name, figure(rate), figure(cost), figure(r.P50/1000))
}

// tick is the unit of processor time in /proc, fixed by the kernel's interface.
const tick = time.Second / 100

// processorTime is what processes have used, user and system together, with
// their ended threads (proc(5), /proc/pid/stat, utime and stime).
func (s *suite) processorTime(pids []int) (total time.Duration) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		s.must(err)
		// The name, in parentheses, may hold anything; what follows has no spaces.
		_, rest, _ := strings.Cut(string(text), ") ")
		for _, field := range strings.Fields(rest)[11:13] {
			ticks, err := strconv.Atoi(field)
			s.must(err)
			total += time.Duration(ticks) * tick
		}
	}
	return total
}

// memory adds a field of /proc/pid/status of each program in megabytes: VmRSS, what
// it holds, RssAnon, what of that no file has, or VmHWM, the most it held.
func (w *world) memory(field string, programs []string, into map[string]samples) {
	for _, name := range programs {
		kilobytes, err := strconv.Atoi(strings.TrimSuffix(valueIn(fmt.Sprintf("/proc/%d/status", w.Programs.Pid(name)), field), " kB"))
		w.must(err)
		into[name] = append(into[name], float64(kilobytes)/1024)
	}
}

// valueIn returns what follows the first "name:" of a file of the kernel.
func valueIn(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(text), "\n")
	at := slices.IndexFunc(lines, func(line string) bool {
		key, _, found := strings.Cut(line, ":")
		return found && strings.TrimSpace(key) == name
	})
	if at < 0 {
		return ""
	}
	_, value, _ := strings.Cut(lines[at], ":")
	return strings.TrimSpace(value)
}

func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// offered are the loads, in multiples of the capacity.
var offered = []float64{0.5, 1, 1.5, 3}

const (
	// useful is how soon an answer must come to count as goodput, refused how soon a
	// client that is not served must know it.
	useful  = 2 * time.Second
	refused = time.Second
	// recovering is how long half the capacity is offered after the overload.
	recovering = 6 * time.Second
	// refusedClients are more than wait in the proxy, and fewer than its connections.
	refusedClients = 800
	// sentAgain is how many payments of an overload are sent once more after it.
	sentAgain = 100
)

// curve is how one kind of load fares as more of it is offered.
type curve struct {
	kind     kind
	cell     cell
	capacity samples
	// goodput is in answers a second and p99 in milliseconds, for each of offered.
	goodput, p99 []samples
	// uninformed is the percentage of those not served at the greatest load that were
	// not told to retry, recovered after how many seconds p99 was back.
	uninformed, recovered samples
	// answer and refusal are the microseconds of processor that all programs take to
	// answer, and the proxy to refuse a request at once.
	answer, refusal samples
	// lost is how many sessions or payments could not be used afterwards.
	lost samples
}

// overload measures what more clients than can be served get, through the proxy.
func (s *suite) overload() {
	w := s.open(s.bin)
	product, generator := s.divideCores()
	s.pin(product)
	w.startAll()
	s.pin(generator)
	programs := []string{"proxy", "auth", "verifier"}
	idle, peak := map[string]samples{}, map[string]samples{}
	w.memory("VmHWM", programs, idle)
	curves := make([]curve, len(kinds))
	for i, k := range kinds {
		curves[i] = curve{kind: k, cell: w.cell(k, w.Addresses.Proxy, w.pids(append(programs, "redis")...)...), goodput: make([]samples, len(offered)), p99: make([]samples, len(offered))}
	}
	s.measured = (s.rounds + 1) / 2 // a round takes two minutes
	for i := range curves {
		for range s.measured {
			w.overloadOnce(&curves[i])
		}
	}
	w.memory("VmHWM", programs, peak)
	for i := range curves {
		w.refuseOnce(&curves[i])
	}
	s.describeOverload(curves)
	var rows []row
	for _, c := range curves {
		rows = append(rows, c.rows()...)
	}
	for _, name := range programs {
		rows = append(rows, row{what: name + ": most memory, beside idle", unit: "MB", ours: peak[name], beside: idle[name], ratio: peak[name].over(idle[name]), goal: atMost(2)})
	}
	s.table("", append(rows, row{what: "payments not counted once by facilitator and ledger", ours: samples{w.miscounted()}, goal: atMost(0)})...)
	s.picture = picture(curves)
}

// divideCores returns the cores of the programs that are measured and those of what
// loads them, as taskset lists them: else the generator's work at a load that no
// program can serve would be taken from the programs. A single core is for both.
func (s *suite) divideCores() (product, generator string) {
	n := runtime.NumCPU()
	if n == 1 {
		return "0", "0"
	}
	return fmt.Sprintf("0-%d", n/2-1), fmt.Sprintf("%d-%d", n/2, n-1)
}

// pin puts this process, and what it starts from now on, on some cores until the
// section ends.
func (s *suite) pin(cores string) {
	s.Helper()
	set := func(cores string) error {
		_, err := command(context.Background(), stack.Program{Path: "taskset"}, "--all-tasks", "--cpu-list", "--pid", cores, strconv.Itoa(os.Getpid()))
		return err
	}
	s.must(set(cores))
	s.Cleanup(func() { s.must(set(fmt.Sprintf("0-%d", runtime.NumCPU()-1))) })
}

// describeOverload writes what was offered, the picture, and its figures.
func (s *suite) describeOverload(curves []curve) {
	s.line("\n## Overload\n\nThrough the proxy, requests arrive at a constant rate whether or not those before are answered (a generator of our own: wrk and hey wait for answers), on up to %s connections.\n"+
		"The programs have half of the cores and the generator the others; the capacity is what wrk gets from there. Goodput counts answers within %v; latencies count from when a request was due.\n"+
		"Refusing takes processor time too: where a refusal takes more than a twentieth of an answer, no goodput of 0.9 is left at three times the capacity.\n\n![Goodput and p99 over offered load](performance.svg)", count(mostConnections), useful)
	lines := [][]string{{"offered ÷ capacity", "", "capacity"}}
	for _, factor := range offered {
		lines[0] = append(lines[0], figure(factor))
	}
	for _, c := range curves {
		goodput, p99 := []string{string(c.kind), "goodput, 1/s", c.capacity.String()}, []string{"", "p99, ms", ""}
		for i := range offered {
			goodput, p99 = append(goodput, figure(c.goodput[i].median())), append(p99, figure(c.p99[i].median()))
		}
		lines = append(lines, goodput, p99)
	}
	s.cells(lines...)
}

// rows judge what became of the greatest load.
func (c curve) rows() []row {
	last := len(offered) - 1
	best := slices.Clone(c.goodput[0])
	for _, goodput := range c.goodput[1:] {
		best = best.pair(goodput, func(a, b float64) float64 { return max(a, b) })
	}
	name := fmt.Sprintf("%s at %s × capacity: ", c.kind, figure(offered[last]))
	rows := []row{
		faster(name+"goodput, beside the best", c.goodput[last], best, atLeast(.9)),
		{what: name + "not served, and no 503 with Retry-After within a second", unit: "%", ours: c.uninformed, goal: atMost(0)},
		{what: string(c.kind) + ": p99 is back after", unit: "s", ours: c.recovered, goal: atMost(5)},
		{what: string(c.kind) + ": sessions or receipts lost", ours: c.lost, goal: atMost(0)},
	}
	if len(c.refusal) == 0 {
		return rows
	}
	mean := samples{c.answer.median()}
	return append(rows, row{what: string(c.kind) + ": to refuse one, beside all that an answer takes", unit: "µs of processor", ours: c.refusal, beside: mean, ratio: c.refusal.over(mean)})
}

// overloadOnce offers more and more of one kind of load.
func (w *world) overloadOnce(c *curve) {
	step := w.step
	if c.kind == login {
		step *= 2 // there are few of them
	}
	var measured rounds
	for range 2 { // connections and caches are warm after the first turn
		w.turn(c.cell, step/2, &measured)
	}
	capacity := measured.rate[1]
	c.capacity, c.answer = append(c.capacity, capacity), append(c.answer, measured.cost[1])
	for i, factor := range offered {
		greatest := i == len(offered)-1
		due := steadily(factor*capacity, 0, step)
		if greatest {
			due = append(due, steadily(capacity/2, step, recovering)...)
		}
		requests := c.cell.requests
		if c.cell.payments != nil {
			requests = c.cell.payments(len(due))
		}
		generator := []int{os.Getpid()}
		began, before, own := time.Now(), w.processorTime(c.cell.pids), w.processorTime(generator)
		outcomes := openLoop(w.Context(), c.cell.addr, requests, due)
		cores := func(used time.Duration) string { return figure(used.Seconds() / time.Since(began).Seconds()) }
		during := only(outcomes, func(o outcome) bool { return o.due < step })
		served := only(during, func(o outcome) bool { return o.status == c.cell.status && o.took <= useful })
		goodput := float64(len(served)) / step.Seconds()
		c.goodput[i], c.p99[i] = append(c.goodput[i], goodput), append(c.p99[i], p99(served))
		w.progress("%s at %s × %s/s: %s/s, p99 %s ms, answers by status %v; %s cores, the generator %s", c.kind, figure(factor), figure(capacity), figure(goodput), figure(p99(served)),
			statuses(outcomes), cores(w.processorTime(c.cell.pids)-before), cores(w.processorTime(generator)-own))
		if greatest {
			c.uninformed = append(c.uninformed, uninformed(during, c.cell.status))
			c.recovered = append(c.recovered, recovery(outcomes, step, 2*c.p99[0].median()))
			c.lost = append(c.lost, lost(w.Context(), c.cell, requests))
		}
	}
}

// refuseOnce measures refusals of the two kinds that are answered so soon that refusing
// others takes much of the processor. The service stands still, so that some of the clients take
// all of its places and the others are refused.
func (w *world) refuseOnce(c *curve) {
	if c.kind != me && c.kind != unpaid {
		return
	}
	service := w.pids(c.kind.service())[0]
	w.must(syscall.Kill(service, syscall.SIGSTOP))
	defer func() { w.must(syscall.Kill(service, syscall.SIGCONT)) }()
	refused := c.cell
	refused.clients, refused.status, refused.pids = refusedClients, http.StatusServiceUnavailable, w.pids("proxy")
	before := w.processorTime(refused.pids)
	r, err := w.wrk(refused, refused.requests, w.step)
	w.must(err)
	c.refusal = samples{float64((w.processorTime(refused.pids) - before).Microseconds()) / float64(r.Answers)}
	w.progress("%s: a refusal takes %s µs", c.kind, c.refusal)
}

// statuses counts answers by their status; 0 is for those that did not come.
func statuses(outcomes []outcome) map[int]int {
	counts := map[int]int{}
	for _, o := range outcomes {
		counts[o.status]++
	}
	return counts
}

// only returns the outcomes for which keep holds.
func only(outcomes []outcome, keep func(outcome) bool) (kept []outcome) {
	for _, o := range outcomes {
		if keep(o) {
			kept = append(kept, o)
		}
	}
	return kept
}

// uninformed returns the percentage of those who are not served who do not soon
// get a 503 that says when to retry.
func uninformed(outcomes []outcome, status int) float64 {
	unserved, silent := 0, 0
	for _, o := range outcomes {
		if o.status == status && o.took <= useful {
			continue
		}
		unserved++
		if o.status != http.StatusServiceUnavailable || !o.retryAfter || o.took > refused {
			silent++
		}
	}
	return 100 * float64(silent) / float64(max(unserved, 1))
}

// recovery returns after how many seconds the p99 of those due within a second is
// at most a limit again, in milliseconds.
func recovery(outcomes []outcome, overloaded time.Duration, limit float64) float64 {
	for after := time.Duration(0); after < recovering; after += time.Second {
		second := only(outcomes, func(o outcome) bool { return o.due >= overloaded+after && o.due < overloaded+after+time.Second })
		if p99(second) <= limit && !slices.ContainsFunc(second, func(o outcome) bool { return o.status != http.StatusOK && o.status != http.StatusPaymentRequired }) {
			return after.Seconds()
		}
	}
	return recovering.Seconds()
}

// lost sends some requests of an overload again, which were served or not, and
// returns how many are not served now: sessions that ended, payments that bought
// nothing.
func lost(ctx context.Context, c cell, requests [][]byte) (n float64) {
	for i := 0; i < len(requests); i += max(len(requests)/sentAgain, 1) {
		if first(ctx, c, requests[i]) != nil {
			n++
		}
	}
	return n
}

// miscounted returns how many payments were settled more than once, or are not settled in
// the ledger. Sales whose clients hung up at the end of a load have a moment to end.
func (w *world) miscounted() (n float64) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if n = w.miscountedNow(); n == 0 || time.Now().After(deadline) {
			return n
		}
	}
}

func (w *world) miscountedNow() (n float64) {
	settled := w.facilitator.settlements()
	for _, times := range settled {
		n += float64(times - 1)
	}
	var sums []struct{ Payments int }
	w.must(json.Unmarshal(w.run(w.Verifier(), "payments", "sum", "--state", "settled", "--json"), &sums))
	missing := len(settled)
	for _, sum := range sums {
		missing -= sum.Payments
	}
	return n + math.Abs(float64(missing))
}

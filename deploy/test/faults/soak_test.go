package faults

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
)

// redisWithin bounds one command to Redis: a slow machine is no fault of it.
const redisWithin = 5 * time.Second

// load is moderate load on a stack without faults, whose every answer must be the
// expected one.
type load struct {
	client.Auth
	audit
	rdb         *redis.Client
	password    string
	admin       *client.Session
	members     []*client.Session
	leaving     int64 // id of the user who never logs out
	final       atomic.Pointer[string]
	guests      atomic.Int64
	mu          sync.Mutex
	done, wrong map[string]int
}

// TestSoak_NothingGrows loads a stack, takes samples, and judges them and what the
// load came to.
func TestSoak_NothingGrows(t *testing.T) {
	if *soak == 0 {
		t.Skip("make soak runs it")
	}
	ctx, folder := interruptible(t), stateFolder(t)
	w := newWorld(ctx, t, filepath.Join(folder, "world"))
	err := w.begin(ctx, 1, settings{
		// Each wrong login counts against a window that ends within the run.
		"auth": {"RATE_LIMIT_WINDOW_MS": "5000"},
		// What is kept on purpose is full long before the second half.
		"verifier": {"FACILITATOR_FREE_SETTLEMENTS": "1000000", "CHAIN_CACHE_BYTES": "1048576", "REPEAT_WINDOW": "0"},
	})
	if err != nil {
		t.Fatal(stack.Explain(err))
	}
	l := &load{
		Auth: client.Auth{URL: w.PublicURL}, rdb: newRedis(w.Redis, redisWithin), done: map[string]int{}, wrong: map[string]int{},
	}
	if l.audit, err = newAudit(ctx, newJournal(), w, 1_000_000); err != nil {
		t.Fatal(err)
	}
	if err := l.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("soak: %s, state in %s\n", *soak, folder)
	samples, err := l.watch(ctx, filepath.Join(folder, "samples.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.finish(context.WithoutCancel(ctx)); err != nil { // a run that is ended early is judged as well
		t.Fatal(err)
	}
	fmt.Print(l.judgeGrowth(samples))
	for _, violation := range l.violations[:min(20, len(l.violations))] {
		t.Error(violation)
	}
}

// job is something that is done over and over.
type job struct {
	name  string
	every time.Duration
	do    func(context.Context) error
}

func (l *load) jobs() []job {
	return []job{
		{"GET /me", 50 * time.Millisecond, func(ctx context.Context) error { return l.expect(ctx, 200, l.members[0], "GET", "/me", nil) }},
		{"GET /me without a session", 500 * time.Millisecond, func(ctx context.Context) error { return l.expect(ctx, 401, nil, "GET", "/me", nil) }},
		{"GET /users", time.Second, func(ctx context.Context) error { return l.expect(ctx, 200, l.admin, "GET", "/users", nil) }},
		{"the guard's request", 200 * time.Millisecond, func(ctx context.Context) error {
			return l.Guard(ctx, l.members[1], l.Addresses.Auth).Want(200, nil)
		}},
		{"login, me, logout", 10 * time.Second, l.visit},
		{"login without logout", 15 * time.Second, l.leave},
		{"wrong login", 10 * time.Second, func(ctx context.Context) error {
			return l.expect(ctx, 401, nil, "POST", "/login", map[string]string{"username": "bernd", "password": "not the password"})
		}},
		{"create and delete a member", 20 * time.Second, l.member},
		{"verification, unpaid", 100 * time.Millisecond, func(ctx context.Context) error {
			return client.Post(ctx, l.url, requestFor(*l.final.Load())).Want(402, nil)
		}},
		{"verification, paid", 2 * time.Second, func(ctx context.Context) error { return l.buyNow(ctx, *l.final.Load()) }},
		{"new transaction, verification, paid", 30 * time.Second, l.buyNew},
	}
}

func (l *load) expect(ctx context.Context, status int, s *client.Session, method, path string, body any) error {
	return l.Call(ctx, s, method, path, body).Want(status, nil)
}

// prepare creates and logs in the users who stay logged in.
func (l *load) prepare(ctx context.Context) (err error) {
	if l.password, err = l.AdminPassword(); err != nil {
		return err
	}
	if l.admin, err = l.login(ctx, layout.AdminName, l.password); err != nil {
		return err
	}
	for _, name := range []string{"anna", "bernd"} {
		if _, err := l.CreateUser(ctx, l.admin, name, "member", oldPassword); err != nil {
			return err
		}
		s, err := l.login(ctx, name, oldPassword)
		if err != nil {
			return err
		}
		l.members = append(l.members, s)
	}
	if l.leaving, err = l.CreateUser(ctx, l.admin, "leaving", "member", oldPassword); err != nil {
		return err
	}
	return l.buyNew(ctx)
}

func (l *load) login(ctx context.Context, name, password string) (*client.Session, error) {
	s, answer := l.Login(ctx, name, password)
	if s == nil {
		return nil, fmt.Errorf("log in %s: %s", name, answer)
	}
	return s, nil
}

// watch loads the stack for the time of the run and samples it meanwhile. What is
// under way at the end is finished.
func (l *load) watch(ctx context.Context, path string) (samples []sample, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	table := csv.NewWriter(file)
	ctx, cancel := context.WithTimeout(ctx, *soak)
	defer cancel()
	begin := time.Now()
	all := &sync.WaitGroup{}
	for _, j := range append(l.jobs(), job{"sample", *every, func(ctx context.Context) error {
		s, err := l.sample(ctx)
		if err != nil {
			return err
		}
		s["minute"] = time.Since(begin).Minutes()
		samples = append(samples, s)
		return s.write(table, len(samples) == 1)
	}}) {
		all.Go(func() {
			for tick := time.Tick(j.every); ; {
				select {
				case <-ctx.Done():
					return
				case <-tick:
					l.once(context.WithoutCancel(ctx), j)
				}
			}
		})
	}
	all.Wait()
	return samples, nil
}

func (l *load) once(ctx context.Context, j job) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := j.do(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.done[j.name]++
		return
	}
	l.wrong[j.name]++
	l.violated("%s %s: %v", time.Now().UTC().Format(time.TimeOnly), j.name, err)
}

func (l *load) visit(ctx context.Context) error {
	s, err := l.login(ctx, "anna", oldPassword)
	if err != nil {
		return err
	}
	return errors.Join(l.expect(ctx, 200, s, "GET", "/me", nil), l.expect(ctx, 200, s, "POST", "/logout", nil), l.expect(ctx, 401, s, "GET", "/me", nil))
}

// leave logs in without logging out. So that these sessions end within the run, and
// not after seven days, their end in Redis is set to a minute from now.
func (l *load) leave(ctx context.Context) error {
	if _, err := l.login(ctx, "leaving", oldPassword); err != nil {
		return err
	}
	const age = `local now = redis.call('TIME')
local soon = now[1] * 1000 + 60000
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], soon, '+inf')) do
  redis.call('ZADD', KEYS[1], soon, id)
  redis.call('PEXPIREAT', ARGV[1] .. id, soon)
end
return redis.call('PEXPIREAT', KEYS[1], soon)`
	user := fmt.Sprintf("svc:{u%d}:", l.leaving)
	aged, err := l.rdb.Eval(ctx, age, []string{user + "sessions"}, user+"session:").Bool()
	if err == nil && !aged {
		err = errors.New("the sessions without logout could not be aged")
	}
	return err
}

// member creates each member with a new name, so that one who could not be deleted
// is one fault, and not the fault of all later ones.
func (l *load) member(ctx context.Context) error {
	id, err := l.CreateUser(ctx, l.admin, fmt.Sprintf("guest-%d", l.guests.Add(1)), "member", oldPassword)
	if err != nil {
		return err
	}
	return l.DeleteUser(ctx, l.admin, id).Want(http.StatusOK, nil)
}

// buyNow buys a verification of a transaction that is final. The verifier may know
// that a block later than the chain does.
func (l *load) buyNow(ctx context.Context, tx string) error {
	p := l.buyers.want(honest, requestFor(tx))
	pay := l.sign(ctx, p, nil)
	if pay == nil {
		return fmt.Errorf("nothing is offered: %s", p.ended)
	}
	answer := l.send(ctx, waiting(nil), p, pay)
	for ; answer.Reason() == "not_finalized" && ctx.Err() == nil; answer = l.send(ctx, waiting(nil), p, pay) {
		pause(ctx, time.Second)
	}
	err := answer.Want(http.StatusOK, nil)
	if err == nil {
		p.ended = sold
	}
	return err
}

// buyNew adds a transaction to the chain, waits until it is final, and buys its
// verification.
func (l *load) buyNew(ctx context.Context) error {
	tx, err := l.chain.transfer(ctx, bystander, "1")
	if err != nil {
		return err
	}
	if err := l.chain.isFinal(ctx, tx); err != nil {
		return err
	}
	l.final.Store(&tx)
	return l.buyNow(ctx, tx)
}

// finish logs all users out, waits until what may expire has, and judges what is
// left and the money.
func (l *load) finish(ctx context.Context) error {
	for _, s := range append(l.members, l.admin) {
		if err := l.expect(ctx, 200, s, "POST", "/logout", nil); err != nil {
			l.violated("log out at the end: %v", err)
		}
	}
	// A user's fence expires by itself, minutes after their last login.
	const count = `local n = 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 or string.find(key, 'session', 1, true) then n = n + 1 end
end
return n`
	keys, err := 1, error(nil)
	for end := time.Now().Add(2 * time.Minute); keys > 0 && err == nil && time.Now().Before(end); pause(ctx, time.Second) {
		keys, err = l.rdb.Eval(ctx, count, nil).Int()
	}
	if err != nil || keys > 0 {
		l.violated("%d keys of sessions or without an end stayed in Redis (%v)", keys, err)
	}
	if err := l.judge(ctx); err != nil {
		return err
	}
	ledger, err := query[int](ctx, l.Path("disk/verifier.db"), "SELECT count(*) FROM payments")
	if payments := len(l.of(honest)); err != nil || ledger[0] != payments {
		l.violated("%d payments were made and %d are in the ledger (%v)", payments, ledger, err)
	}
	return nil
}

// sample is what was measured at one moment, by name.
type sample map[string]float64

// measured are the metrics of the Go runtime and the process that are taken
// from every program, and their names here.
var measured = map[string]string{
	"process_resident_memory_bytes": "memory, MiB",
	"go_memstats_heap_inuse_bytes":  "heap, MiB",
	"go_goroutines":                 "goroutines",
	"process_open_fds":              "open files",
}

// sample reads the metrics of the programs and the number of keys in Redis.
func (l *load) sample(ctx context.Context) (sample, error) {
	s := sample{}
	for name, addr := range map[string]string{"auth": l.AuthAdmin, "verifier": l.VerifierAdmin, "proxy": l.ProxyAdmin} {
		found := 0
		for line := range strings.Lines(string(client.Get(ctx, "http://"+addr+"/metrics").Body)) {
			metric, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			label, wanted := measured[metric]
			if !wanted {
				continue
			}
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, err
			}
			if strings.HasSuffix(label, "MiB") {
				number /= 1 << 20
			}
			s[name+" "+label] = number
			found++
		}
		if found != len(measured) {
			return nil, fmt.Errorf("metrics of %s: %d of %d were read", name, found, len(measured))
		}
	}
	keys, err := l.rdb.DBSize(ctx).Result()
	s["Redis keys"] = float64(keys)
	return s, err
}

// write appends the sample to a table, below the names where it is the first one.
func (s sample) write(table *csv.Writer, first bool) error {
	names := slices.Sorted(maps.Keys(s))
	if first {
		_ = table.Write(names) // its error stays until Flush
	}
	var values []string
	for _, name := range names {
		values = append(values, strconv.FormatFloat(s[name], 'f', 2, 64))
	}
	_ = table.Write(values)
	table.Flush()
	return table.Error()
}

// allowed is how much a measured value may be higher at the end of the second
// half of the run than at its beginning, by the line fitted through it: a part
// of its median, or a number of things that come and go.
func allowed(name string, median float64) float64 {
	if strings.HasSuffix(name, "MiB") {
		return max(0.10*median, 4)
	}
	return max(0.05*median, 5)
}

// growth fits a line through the second half of the samples and returns how much
// it rises from their first to their last moment, and their median.
func growth(samples []sample, name string) (rise, median float64) {
	half := samples[len(samples)/2:]
	var n, sx, sy, sxx, sxy float64
	values := make([]float64, 0, len(half))
	for _, s := range half {
		x, y := s["minute"], s[name]
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		values = append(values, y)
	}
	slices.Sort(values)
	if d := n*sxx - sx*sx; d > 0 {
		rise = (n*sxy - sx*sy) / d * (half[len(half)-1]["minute"] - half[0]["minute"])
	}
	return rise, values[len(values)/2]
}

// judgeGrowth judges that nothing grew, and returns the tables.
func (l *load) judgeGrowth(samples []sample) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n| done | times | failed |\n|---|---:|---:|\n")
	for _, j := range l.jobs() {
		fmt.Fprintf(&out, "| %s | %d | %d |\n", j.name, l.done[j.name], l.wrong[j.name])
	}
	if len(samples) < 4 {
		l.violated("%d samples are too few to judge", len(samples))
		return out.String()
	}
	fmt.Fprintf(&out, "\nOver the second half of %.0f minutes, %d samples:\n\n| measured | median | rise | allowed |\n|---|---:|---:|---:|\n",
		samples[len(samples)-1]["minute"], len(samples)-len(samples)/2)
	for _, name := range slices.Sorted(maps.Keys(samples[0])) {
		if name == "minute" {
			continue
		}
		rise, median := growth(samples, name)
		fmt.Fprintf(&out, "| %s | %.1f | %+.1f | %.1f |\n", name, median, rise, allowed(name, median))
		if rise > allowed(name, median) {
			l.violated("%s grew", name)
		}
	}
	fmt.Fprintln(&out)
	table(&out, "Counted", l.counts)
	return out.String()
}

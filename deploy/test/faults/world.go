package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/faults/internal/wire"
	"github.com/pforte/pforte/pkg/freeport"
)

// readyWithin is how long a program may take to be ready on a busy machine.
const readyWithin = time.Minute

// world is a stack with a fault in reserve between any two of its programs. The
// development chain and the proxy live for all its runs; the services and Redis
// begin each run with nothing.
type world struct {
	layout.Layout
	programs *stack.Stack
	redis    *wire.TCP
	nodes    [3]*wire.HTTP    // of the chain that is verified; a run has the first ones
	payNode  *wire.HTTP       // the chain that money moves on; the same one, by another way
	settler  *wire.HTTP       // the facilitator
	disk     disk             // of both services
	memory   disk             // of Redis
	clocks   map[string]clock // by program
	turned   bool             // whether clocks are turned
	chain    chain
	accounts accounts
	app      *app // behind the guard
	redisBin string
}

func newWorld(ctx context.Context, o options, state string) (*world, error) {
	a, err := freeport.Addrs(ctx, 9)
	if err != nil {
		return nil, err
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, err
	}
	redisBin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	w := &world{redisBin: redisBin, turned: o.clocks, Layout: layout.Layout{
		Extra: map[string]map[string]string{"devnet": {"FINALITY_DEPTH": strconv.Itoa(finality)}},
		Bin:   bin, State: state, PublicURL: "http://" + a[0],
		Addresses: layout.Addresses{
			Proxy: a[0], ProxyAdmin: a[1], Auth: a[2], AuthAdmin: a[3], Verifier: a[4], VerifierAdmin: a[5],
			Chain: a[6], Facilitator: a[7], Redis: a[8],
		},
	}}
	w.chain = chain{url: "http://" + w.Chain}
	return w, errors.Join(w.prepare(ctx), w.first(ctx))
}

func (w *world) prepare(ctx context.Context) (err error) {
	if err := w.Prepare(); err != nil {
		return err
	}
	if w.programs, err = stack.New(w.Path("logs")); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(0, 0)) //nolint:gosec // not a secret
	var faults [10]error
	w.redis, faults[0] = wire.NewTCP(ctx, w.Redis)
	for i := range w.nodes {
		w.nodes[i], faults[7+i] = wire.NewHTTP(ctx, w.Chain, random)
	}
	w.payNode, faults[2] = wire.NewHTTP(ctx, w.Chain, random)
	w.settler, faults[3] = wire.NewHTTP(ctx, w.Facilitator, random)
	w.disk, faults[4] = newDisk(w.Path("disk"))
	w.memory, faults[5] = newDisk(w.Path("redis"))
	w.clocks, faults[6] = newClocks(w.State)
	w.app, faults[1] = newApp(ctx)
	return errors.Join(faults[:]...)
}

// first starts what all runs share.
func (w *world) first(ctx context.Context) error {
	if w.programs == nil {
		return errors.New("the world has no programs")
	}
	if err := w.programs.Start(ctx, readyWithin, w.Devnet()); err != nil {
		return err
	}
	for range 3 { // something to ask about
		if err := w.give(ctx, bystander, "1"); err != nil {
			return err
		}
	}
	if err := w.openAccounts(ctx); err != nil {
		return err
	}
	return w.chain.ready(ctx)
}

// close ends everything.
func (w *world) close() {
	if w.programs != nil {
		w.programs.Stop(context.Background(), 5*time.Second)
	}
	for _, each := range w.http() {
		if each != nil {
			_ = each.Close()
		}
	}
	if w.app != nil {
		_ = w.app.Close()
	}
	if w.redis != nil {
		_ = w.redis.Close()
	}
	w.disk.close()
	w.memory.close()
}

// http is all that is asked by HTTP.
func (w *world) http() []*wire.HTTP { return append(w.nodes[:], w.payNode, w.settler) }

// finality is how many blocks the development chain's finalized head is behind
// the latest one.
const finality = 4

// terms are what changes between runs in how the services are set up.
type terms struct {
	limit    int    // of free settlements
	confirm  string // whose word makes a settlement
	nodes    int    // of the verified chain; most of them have to agree
	reverter bool   // whether there is a buyer whose transfers revert
}

// begin starts both services with nothing kept, and Redis with nothing in it.
func (w *world) begin(ctx context.Context, t terms) error {
	w.heal()
	for _, name := range services {
		w.programs.Kill(name)
	}
	if err := errors.Join(w.disk.empty(), w.memory.empty(), w.forgetLogs(), w.Prepare()); err != nil {
		return err
	}
	var nodes []string
	for _, each := range w.nodes[:t.nodes] {
		nodes = append(nodes, "http://"+each.Addr())
	}
	w.Extra = map[string]map[string]string{
		"pforte-proxy": {"APP_UPSTREAM": w.app.addr},
		"auth": {
			"REDIS_URL": "redis://" + w.redis.Addr(), "DATABASE_URL": "sqlite:" + w.Path("disk/auth.db"),
			"RATE_LIMIT_MAX_ATTEMPTS": "1000000", "LOG_LEVEL": "warn", clockSetting: w.clocks["auth"].path,
		},
		"verifier": {
			"DATABASE_URL":   "sqlite:" + w.Path("disk/verifier.db"),
			"CHAIN_RPC_URLS": strings.Join(nodes, ","), "PAYMENT_RPC_URL": "http://" + w.payNode.Addr(),
			"FACILITATOR_URL": "http://" + w.settler.Addr(), "FACILITATOR_FREE_SETTLEMENTS": strconv.Itoa(t.limit),
			"FACILITATOR_VERIFY_TIMEOUT": "1s", "FACILITATOR_SETTLE_TIMEOUT": "3s", "CHAIN_RPC_TIMEOUT": "700ms",
			"PAYMENT_CONFIRM": t.confirm, "UNPAID_ATTEMPTS_PER_PAYER": "1000000", "UNPAID_ATTEMPTS_PER_ADDRESS": "1000000",
			"LOG_LEVEL": "warn", clockSetting: w.clocks["verifier"].path,
		},
	}
	if err := w.programs.Start(ctx, readyWithin, w.program("redis")); err != nil {
		return err
	}
	if err := w.programs.Start(ctx, readyWithin, w.program("auth"), w.program("verifier"), w.program("proxy")); err != nil || !w.turned {
		return err
	}
	return w.clocks["auth"].turns(ctx, "http://"+w.Addresses.Auth+"/health")
}

// forgetLogs removes what the services of the run before logged.
func (w *world) forgetLogs() (faults error) {
	for _, name := range services {
		if err := os.Remove(w.log(name)); !errors.Is(err, fs.ErrNotExist) {
			faults = errors.Join(faults, err)
		}
	}
	return faults
}

func (w *world) log(name string) string { return filepath.Join(w.Path("logs"), name+".log") }

// program gives a program by its name.
func (w *world) program(name string) stack.Program {
	switch name {
	case "auth":
		return w.Layout.Auth()
	case "verifier":
		return w.Layout.Verifier()
	case "proxy":
		return w.Layout.Proxy()
	case "redis":
		p := w.RedisServer(w.redisBin)
		// Every write is in the file before it is answered. Redis's own choice,
		// once a second, may forget a logout when the machine loses power.
		p.Args = append(p.Args, "--appendfsync", "always")
		return p
	}
	panic("no program is called " + name)
}

// heal ends all faults of what is between the programs.
func (w *world) heal() {
	w.redis.Set(wire.None, 0)
	for _, each := range w.http() {
		each.Set(wire.None, 0, 0)
	}
	w.disk.free()
	for _, each := range w.clocks {
		_ = each.set(0) // the next run begins with it again, and fails
	}
}

// services are the programs that each run begins anew, in the order in which they
// need one another.
var services = []string{"redis", "auth", "verifier", "proxy"}

// wellWithin is how long a program that runs may take to be well again, before
// it is taken for one that gave up: a service does not start on a full disk, and
// waits for whoever supervises it to start it again.
const wellWithin = 5 * time.Second

// revive starts whatever does not run, waits until all is well, and tells which
// programs had given up.
func (w *world) revive(ctx context.Context) (gaveUp []string, err error) {
	for _, name := range services {
		p := w.program(name)
		soon, cancel := context.WithTimeout(ctx, wellWithin)
		err := until(soon, p.Ready)
		cancel()
		if err == nil {
			continue
		}
		gaveUp = append(gaveUp, name)
		w.programs.Kill(name)
		if err := w.programs.Start(ctx, readyWithin, p); err != nil {
			return gaveUp, err
		}
	}
	return gaveUp, nil
}

// panicked gives the programs whose log of this run tells of a panic, or of
// what the runtime calls a fatal error.
func (w *world) panicked() (names []string) {
	for _, name := range []string{"auth", "verifier", "proxy", "devnet"} {
		text, err := os.ReadFile(w.log(name))
		if err != nil || bytes.Contains(text, []byte("panic: ")) || bytes.Contains(text, []byte("fatal error: ")) {
			names = append(names, name)
		}
	}
	return names
}

// until asks until the answer is yes or ctx ends.
func until(ctx context.Context, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// explain adds the last log lines of the program that is to blame.
func explain(err error) string {
	var failure *stack.Failure
	if errors.As(err, &failure) {
		return fmt.Sprintf("%v\n%s", err, strings.Join(failure.Last, "\n"))
	}
	return err.Error()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/faults/internal/wire"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
)

// world is a stack with a proxy that can fail between any two of its programs. The
// development chain lives for all its runs; the services, Redis and the proxy begin
// each run with nothing.
type world struct {
	*fixture.World
	redis    *wire.TCP
	nodes    [3]*wire.HTTP    // of the chain that is verified; a run has the first ones
	payNode  *wire.HTTP       // of the chain that money moves on: the same chain, by another way
	settler  *wire.HTTP       // the facilitator
	disk     disk             // of both services
	memory   disk             // of Redis
	clocks   map[string]clock // by program
	setWrong bool             // whether clocks are set wrong
	chain    chain
	accounts accounts
	app      *app // behind the guard
	redisBin string
}

// How many accounts of each kind a world has. A run has fewer purchases than
// that, so that each has an account of its own and no buyer is limited by what
// happened to another one's payments.
const (
	honestBuyers    = 40
	revertingBuyers = 6
)

// accounts are those that buyers pay from.
type accounts struct {
	honest    []*client.Buyer
	reverting []*client.Buyer // whose transfers revert
}

// finality is how many blocks the development chain's finalized head is behind
// the latest one.
const finality = 4

// newWorld starts what all runs share. The world is nil, or to be closed also when
// it is returned with an error.
func newWorld(ctx context.Context, o options, state string) (*world, error) {
	base, err := fixture.New(ctx, o.bin, state)
	if err != nil {
		return nil, err
	}
	w := &world{World: base, setWrong: o.clocks, chain: chain{base.DevelopmentChain()}}
	w.Extra["devnet"] = map[string]string{"FINALITY_DEPTH": strconv.Itoa(finality)}
	if w.redisBin, err = exec.LookPath("redis-server"); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(0, 0)) //nolint:gosec // not a secret
	var faults [10]error
	for i := range w.nodes {
		w.nodes[i], faults[i] = wire.NewHTTP(ctx, w.Chain, random)
	}
	w.payNode, faults[3] = wire.NewHTTP(ctx, w.Chain, random)
	w.settler, faults[4] = wire.NewHTTP(ctx, w.Facilitator, random)
	w.redis, faults[5] = wire.NewTCP(ctx, w.Redis)
	w.disk, faults[6] = newDisk(w.Path("disk"))
	w.memory, faults[7] = newDisk(w.Path("redis"))
	w.clocks, faults[8] = newClocks(w.State)
	w.app, faults[9] = newApp(ctx)
	if err := errors.Join(faults[:]...); err != nil {
		return w, err
	}
	if err := w.Start(ctx, w.Devnet()); err != nil {
		return w, err
	}
	for range 3 { // transactions to verify
		if _, err := w.chain.transfer(ctx, w.Facilitator, bystander, "1"); err != nil {
			return w, err
		}
	}
	if err := w.openAccounts(ctx); err != nil {
		return w, err
	}
	return w, w.chain.ready(ctx)
}

// openAccounts creates all accounts, with some money each.
func (w *world) openAccounts(ctx context.Context) error {
	all := make([]*client.Buyer, honestBuyers+revertingBuyers)
	faults := make([]error, len(all))
	var transfers sync.WaitGroup
	for i := range all {
		b, err := client.NewBuyer(fmt.Sprintf("0x%064x", 0x1000+i))
		if err != nil {
			return err
		}
		all[i] = b
		transfers.Go(func() { _, faults[i] = w.chain.transfer(ctx, w.Facilitator, b.Address, "100000000") })
	}
	transfers.Wait()
	w.accounts = accounts{honest: all[:honestBuyers], reverting: all[honestBuyers:]}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return w.chain.makeRevert(ctx, w.accounts.reverting)
}

// ownAddresses is whether all of 127.0.0.0/8 is this machine's, so that buyers can
// have addresses of their own.
const ownAddresses = runtime.GOOS == "linux"

// address is the n-th address of this machine in a network of its own, nil for any
// address.
func address(network, n int) net.Addr {
	if !ownAddresses {
		return nil
	}
	return &net.TCPAddr{IP: net.IPv4(127, byte(network), byte(n>>8), byte(n))}
}

// close ends everything.
func (w *world) close() {
	w.Stop()
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

// http is everything that programs reach by HTTP.
func (w *world) http() []*wire.HTTP { return append(w.nodes[:], w.payNode, w.settler) }

// terms are what changes between runs in how the services are set up.
type terms struct {
	limit    int    // of free settlements
	confirm  string // what confirms a settlement: the facilitator or the chain
	nodes    int    // of the verified chain; most of them have to agree
	reverter bool   // whether there are buyers whose transfers revert
}

// settings are those of the services in a run with faults.
func (w *world) settings(t terms) map[string]map[string]string {
	return map[string]map[string]string{
		"auth": {"RATE_LIMIT_MAX_ATTEMPTS": "1000000", clockSetting: w.clocks["auth"].path},
		"verifier": {
			"FACILITATOR_FREE_SETTLEMENTS": strconv.Itoa(t.limit), "PAYMENT_CONFIRM": t.confirm,
			"FACILITATOR_VERIFY_TIMEOUT": "1s", "FACILITATOR_SETTLE_TIMEOUT": "3s", "CHAIN_RPC_TIMEOUT": "700ms",
			"UNPAID_ATTEMPTS_PER_PAYER": "1000000", "UNPAID_ATTEMPTS_PER_ADDRESS": "1000000",
			clockSetting: w.clocks["verifier"].path,
		},
	}
}

// begin starts both services with nothing kept, so many nodes and further
// settings, and Redis with nothing in it.
func (w *world) begin(ctx context.Context, nodes int, settings map[string]map[string]string) error {
	w.heal()
	for _, name := range services {
		w.Programs.Kill(name)
	}
	if err := errors.Join(w.disk.empty(), w.memory.empty(), w.removeLogs(), w.Prepare()); err != nil {
		return err
	}
	var urls []string
	for _, each := range w.nodes[:nodes] {
		urls = append(urls, "http://"+each.Addr())
	}
	w.Extra = map[string]map[string]string{
		"pforte-proxy": {"APP_UPSTREAM": w.app.addr},
		"auth": {
			"REDIS_URL": "redis://" + w.redis.Addr(), "DATABASE_URL": "sqlite:" + w.Path("disk/auth.db"), "LOG_LEVEL": "warn",
		},
		"verifier": {
			"DATABASE_URL": "sqlite:" + w.Path("disk/verifier.db"), "LOG_LEVEL": "warn",
			"CHAIN_RPC_URLS": strings.Join(urls, ","), "PAYMENT_RPC_URL": "http://" + w.payNode.Addr(),
			"FACILITATOR_URL": "http://" + w.settler.Addr(),
		},
	}
	for program, more := range settings {
		maps.Copy(w.Extra[program], more)
	}
	if err := w.Start(ctx, w.program("redis")); err != nil {
		return err
	}
	if err := w.Start(ctx, w.program("auth"), w.program("verifier"), w.program("proxy")); err != nil || !w.setWrong {
		return err
	}
	return w.clocks["auth"].check(ctx, "http://"+w.Addresses.Auth+"/health")
}

// removeLogs removes what the services of the run before logged.
func (w *world) removeLogs() (faults error) {
	for _, name := range services {
		if err := os.Remove(w.LogPath(name)); !errors.Is(err, fs.ErrNotExist) {
			faults = errors.Join(faults, err)
		}
	}
	return faults
}

// services are the programs that each run begins anew, in the order in which they
// need one another.
var services = []string{"redis", "auth", "verifier", "proxy"}

// program returns a program by its name.
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

// wellWithin is how long a program that runs may take to be ready again, before it
// is taken for one that gave up: a service does not start on a full disk, and
// waits for its supervisor to start it again.
const wellWithin = 5 * time.Second

// revive starts every program that does not run, waits until all are ready, and
// returns which of them had given up.
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
		w.Programs.Kill(name)
		if err := w.Start(ctx, p); err != nil {
			return gaveUp, err
		}
	}
	return gaveUp, nil
}

// panicked returns the programs whose log of this run has a panic, or what the
// runtime calls a fatal error.
func (w *world) panicked() (names []string) {
	for _, name := range []string{"auth", "verifier", "proxy", "devnet"} {
		text, err := w.Log(name)
		if err != nil || strings.Contains(text, "panic: ") || strings.Contains(text, "fatal error: ") {
			names = append(names, name)
		}
	}
	return names
}

// until repeats a check until it holds or ctx ends.
func until(ctx context.Context, check func(context.Context) error) error {
	for {
		err := check(ctx)
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

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

package faults

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
)

// world is a stack with a proxy that can fail between any two of its programs. The
// development chain lives for all its runs; the services, Redis and the proxy begin
// each run with nothing.
type world struct {
	*fixture.World
	redis    *tcpProxy
	nodes    [3]*httpProxy // of the chain that is verified; a run has the first ones
	payNode  *httpProxy    // of the chain that money moves on: the same chain, by another way
	settler  *httpProxy    // the facilitator
	log      *receiptLog
	disk     disk             // of both services
	memory   disk             // of Redis
	clocks   map[string]clock // by program
	app      *httptest.Server // behind the guard
	redisBin string
	chain    chain
	// The accounts that buyers pay from; the transfers of the second ones revert.
	honest, reverting []*client.Account
	earlier           map[string][]byte // all receipts that were bought here, by the request
}

// How many accounts of each kind a world has. A run has fewer purchases than
// that, so that each has an account of its own and no buyer is limited by what
// happened to another one's payments.
const (
	honestBuyers    = 40
	revertingBuyers = 6
)

// finality is how many blocks the development chain's finalized head is behind
// the latest one.
const finality = 4

// newWorld starts what all runs share, until the test ends.
func newWorld(ctx context.Context, t *testing.T, state string) *world {
	t.Helper()
	base, err := fixture.New(ctx, *bin, state)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		World: base, app: newApp(t), earlier: map[string][]byte{},
		chain: chain{base.DevelopmentChain(), base.Facilitator},
		redis: newTCPProxy(ctx, t, base.Redis), payNode: newHTTPProxy(t, base.Chain), settler: newHTTPProxy(t, base.Facilitator),
		disk: newDisk(t, base.Path("disk")), memory: newDisk(t, base.Path("redis")),
		clocks: map[string]clock{"auth": newClock(t, base.Path("auth-clock")), "verifier": newClock(t, base.Path("verifier-clock"))},
	}
	for i := range w.nodes {
		w.nodes[i] = newHTTPProxy(t, base.Chain)
	}
	w.log = newReceiptLog(t, w)
	if w.redisBin, err = exec.LookPath("redis-server"); err != nil {
		t.Fatal(err)
	}
	w.Extra["devnet"] = map[string]string{"FINALITY_DEPTH": strconv.Itoa(finality)}
	t.Cleanup(w.Stop)
	if err := w.Start(ctx, w.Devnet()); err != nil {
		t.Fatal(stack.Explain(err))
	}
	if err := errors.Join(w.openAccounts(ctx), w.chain.ready(ctx)); err != nil {
		t.Fatal(err)
	}
	return w
}

// openAccounts creates all accounts, with some money each, by transactions that can
// be verified.
func (w *world) openAccounts(ctx context.Context) error {
	all := make([]*client.Account, honestBuyers+revertingBuyers)
	failed := make([]error, len(all))
	var transfers sync.WaitGroup
	for i := range all {
		all[i] = client.NewAccount(fmt.Sprintf("%064x", 0x1000+i))
		transfers.Go(func() { _, failed[i] = w.chain.transfer(ctx, all[i].Address, "100000000") })
	}
	transfers.Wait()
	w.honest, w.reverting = all[:honestBuyers], all[honestBuyers:]
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return w.chain.makeRevert(ctx, w.reverting)
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

// settings are further settings by the name of a program.
type settings map[string]map[string]string

// begin starts both services with nothing kept, so many nodes and further
// settings, and Redis with nothing in it.
func (w *world) begin(ctx context.Context, nodes int, further settings) error {
	w.heal()
	for _, name := range services {
		w.Programs.Kill(name)
		if err := os.Remove(w.LogPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(w.disk.empty(), w.memory.empty(), w.log.forget(), w.Prepare()); err != nil {
		return err
	}
	urls := make([]string, nodes)
	for i := range urls {
		urls[i] = w.nodes[i].URL
	}
	w.Extra = settings{
		"pforte-proxy": {"APP_UPSTREAM": w.app.Listener.Addr().String()},
		"auth": {
			"REDIS_URL": "redis://" + w.redis.addr(), "DATABASE_URL": "sqlite:" + w.Path("disk/auth.db"), "LOG_LEVEL": "warn",
		},
		"verifier": {
			"DATABASE_URL": "sqlite:" + w.Path("disk/verifier.db"), "LOG_LEVEL": "warn",
			"CHAIN_RPC_URLS": strings.Join(urls, ","), "PAYMENT_RPC_URL": w.payNode.URL, "FACILITATOR_URL": w.settler.URL,
		},
	}
	maps.Copy(w.Extra["verifier"], w.log.settings(w.disk))
	for program, more := range further {
		maps.Copy(w.Extra[program], more)
	}
	if err := w.Start(ctx, w.program("redis")); err != nil {
		return err
	}
	if err := w.Start(ctx, w.program("auth"), w.program("verifier"), w.program("proxy")); err != nil || !*wrongClocks {
		return err
	}
	return w.clocks["auth"].check(ctx, "http://"+w.Addresses.Auth+"/health")
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
	w.redis.set(noFault, 0)
	for _, each := range append(w.nodes[:], w.payNode, w.settler, w.log.witnesses[0].link, w.log.witnesses[1].link) {
		each.set(noFault, 0, 0)
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
		if until(ctx, wellWithin, p.Ready) == nil {
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

// until repeats a check until it holds, for some time or until ctx ends.
func until(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
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

// diskSize is the size of a world's disk, in bytes: the write-ahead log of SQLite may have 32 MB
// before it is written back, in a run that takes long.
const diskSize = "64m"

// disk is a folder that can be made full.
type disk string

// newDisk returns a folder on a disk of its own for a campaign. Load over hours has
// all of the machine's.
func newDisk(t *testing.T, path string) disk {
	t.Helper()
	err := os.MkdirAll(path, 0o700)
	if err == nil && *runs > 0 {
		err = mountDisk(path)
		t.Cleanup(func() { unmountDisk(path) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return disk(path)
}

func (d disk) ballast() string { return filepath.Join(string(d), "ballast") }

// fill writes until no space is left.
func (d disk) fill() error {
	file, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return file.Close()
}

// free ends what fill did.
func (d disk) free() { _ = os.Remove(d.ballast()) }

// empty removes everything.
func (d disk) empty() error {
	files, err := filepath.Glob(filepath.Join(string(d), "*"))
	for _, file := range files {
		err = errors.Join(err, os.RemoveAll(file))
	}
	return err
}

// clockSetting names, to a program that is built with the clock of folder clock,
// the file of how far its clock is wrong. Other programs ignore it.
const clockSetting = "PFORTE_CHAOS_CLOCK"

// clock is the file that sets the clock of one program wrong, while it runs.
type clock string

func newClock(t *testing.T, path string) clock {
	t.Helper()
	if err := clock(path).set(0); err != nil {
		t.Fatal(err)
	}
	return clock(path)
}

// set makes the clock wrong by so much. The program has the file in its memory:
// it is written to, and never replaced.
func (c clock) set(by time.Duration) error {
	file, err := os.OpenFile(string(c), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by)), 0)
	return errors.Join(err, file.Close())
}

// check returns an error unless a program's clock is one that can be set wrong: its
// answers have the date.
func (c clock) check(ctx context.Context, url string) (err error) {
	if err := c.set(48 * time.Hour); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.set(0)) }()
	answer := client.Get(ctx, url)
	if answer.Err != nil {
		return answer.Err
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil || time.Until(date) < 24*time.Hour {
		return fmt.Errorf("the clock of %s cannot be set (%w): build it as make chaos does", url, err)
	}
	return nil
}

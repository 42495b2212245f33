package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/freeport"
)

const (
	readyWithin = time.Minute
	top         = "../../.." // the project's folder
)

// world is a stack with a wiretap before its door.
type world struct {
	layout.Layout
	programs *stack.Stack
	tap      *wiretap
}

// options change a world before it starts.
type options struct {
	// change has the last word on the layout.
	change func(*layout.Layout)
	// before are further programs, started before the services.
	before func(layout.Layout) []stack.Program
}

// newWorld starts a stack with a fresh state for one test.
func newWorld(t *testing.T, o options) *world {
	t.Helper()
	w, stop, err := start(t.Context(), t.TempDir(), o)
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(explain(err))
	}
	t.Cleanup(func() { w.tap.report(t) })
	return w
}

// start starts a stack whose state is in dir. The stop is never nil.
func start(ctx context.Context, dir string, o options) (*world, func(), error) {
	l, err := newLayout(ctx, dir)
	if err != nil {
		return nil, func() {}, err
	}
	tap, err := newWiretap("http://"+l.Addresses.Proxy, top+"/services/verifier/api/openapi.json", top+"/services/auth/api/openapi.json")
	if err != nil {
		return nil, func() {}, err
	}
	l.PublicURL = tap.URL
	if o.change != nil {
		o.change(&l)
	}
	programs, err := stack.New(l.Path("logs"))
	if err != nil {
		return nil, tap.Close, err
	}
	stop := func() {
		tap.Close()
		programs.Stop(context.Background(), 5*time.Second)
	}
	w := &world{Layout: l, programs: programs, tap: tap}
	return w, stop, w.run(ctx, o)
}

func (w *world) run(ctx context.Context, o options) error {
	if err := w.Prepare(); err != nil {
		return err
	}
	if _, err := w.StartRedis(ctx, w.programs); err != nil {
		return err
	}
	first := []stack.Program{w.Devnet()}
	if o.before != nil {
		first = append(first, o.before(w.Layout)...)
	}
	if err := w.programs.Start(ctx, readyWithin, first...); err != nil {
		return err
	}
	return w.programs.Start(ctx, readyWithin, w.Auth(), w.Verifier(), w.Proxy())
}

func newLayout(ctx context.Context, dir string) (layout.Layout, error) {
	bin := os.Getenv("PFORTE_BIN")
	if bin == "" {
		return layout.Layout{}, errors.New("PFORTE_BIN does not name the folder of the built programs: run make e2e")
	}
	a, err := freeport.Addrs(ctx, 9)
	if err != nil {
		return layout.Layout{}, err
	}
	return layout.Layout{
		Bin: bin, State: dir,
		Addresses: layout.Addresses{
			Proxy: a[0], ProxyAdmin: a[1], Auth: a[2], AuthAdmin: a[3], Verifier: a[4], VerifierAdmin: a[5],
			Chain: a[6], Facilitator: a[7], Redis: a[8],
		},
		Extra: map[string]map[string]string{},
	}, nil
}

// explain adds the last log lines of the program that is to blame.
func explain(err error) string {
	var failure *stack.Failure
	if errors.As(err, &failure) {
		return fmt.Sprintf("%v\n%s", err, strings.Join(failure.Last, "\n"))
	}
	return err.Error()
}

// log gives what a program has logged.
func (w *world) log(t *testing.T, program string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.Path("logs"), program+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func split(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // an address of ours
	}
	return host, port
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addrs, err := freeport.Addrs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}

// restart starts a program again that was killed.
func (w *world) restart(t *testing.T, program stack.Program) {
	t.Helper()
	if err := w.programs.Start(t.Context(), readyWithin, program); err != nil {
		t.Fatal(explain(err))
	}
}

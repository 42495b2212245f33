package e2e

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
	"github.com/pforte/pforte/pkg/freeport"
)

const top = "../../.." // the project's folder

// world is a stack with a recorder before its proxy.
type world struct {
	*fixture.World
	recorder *recorder
}

// options change a world before it starts.
type options struct {
	// change is applied to the layout last.
	change func(*layout.Layout)
	// before are further programs, started before the services.
	before func(layout.Layout) []stack.Program
	// only are the programs to start beside Redis, where a test does not need all.
	only func(layout.Layout) []stack.Program
}

// newWorld starts a stack with a fresh state for one test.
func newWorld(t *testing.T, o options) *world {
	t.Helper()
	w, stop, err := start(t.Context(), t.TempDir(), o)
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(stack.Explain(err))
	}
	t.Cleanup(func() { w.recorder.report(t) })
	return w
}

// start starts a stack whose state is in dir. The stop is never nil.
func start(ctx context.Context, dir string, o options) (*world, func(), error) {
	bin := os.Getenv("PFORTE_BIN")
	if bin == "" {
		return nil, func() {}, errors.New("PFORTE_BIN does not name the folder of the built programs: run make e2e")
	}
	base, err := fixture.New(ctx, bin, dir)
	if err != nil {
		return nil, func() {}, err
	}
	r, err := newRecorder(base.PublicURL, top+"/services/verifier/api/openapi.json", top+"/services/auth/api/openapi.json")
	if err != nil {
		return nil, base.Stop, err
	}
	base.PublicURL = r.URL
	if o.change != nil {
		o.change(&base.Layout)
	}
	var further []stack.Program
	if o.before != nil {
		further = o.before(base.Layout)
	}
	w, stop := &world{World: base, recorder: r}, func() { r.Close(); base.Stop() }
	if _, err := base.StartRedis(ctx, base.Programs); err != nil {
		return nil, stop, err
	}
	if o.only != nil {
		return w, stop, base.Start(ctx, append(further, o.only(base.Layout)...)...)
	}
	if err := base.Start(ctx, append(further, base.Devnet())...); err != nil {
		return nil, stop, err
	}
	return w, stop, base.Start(ctx, base.Auth(), base.Verifier(), base.Proxy())
}

// log returns what a program has logged.
func (w *world) log(t *testing.T, program string) string {
	t.Helper()
	text, err := w.Log(program)
	if err != nil {
		t.Fatal(err)
	}
	return text
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

// restart starts programs again that were killed.
func (w *world) restart(t *testing.T, programs ...stack.Program) {
	t.Helper()
	if err := w.Start(t.Context(), programs...); err != nil {
		t.Fatal(stack.Explain(err))
	}
}

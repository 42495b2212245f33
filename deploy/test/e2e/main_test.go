package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// shared is the stack of all journeys that need none of their own.
var shared *world

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pforte-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	app := newApp()
	defer app.Close()
	w, stop, err := start(context.Background(), dir, options{change: func(l *layout.Layout) {
		l.Extra["pforte-proxy"] = map[string]string{"APP_UPSTREAM": app.Listener.Addr().String()}
	}})
	defer stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, stack.Explain(err))
		return 1
	}
	shared = w
	defer stopDriver()
	defer stopHousehold()
	code := m.Run()
	for _, exchange := range w.recorder.exchanges() {
		fmt.Println("checked against its document:", exchange)
	}
	return code
}

// sharedWorld is the shared stack for one journey, whose exchanges must be as
// documented.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	t.Cleanup(func() { shared.recorder.report(t) })
	return shared
}

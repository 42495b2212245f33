// Command bench measures Pforte and writes deploy/docs/performance.md. Run it as
// `make bench`; BENCH=quick measures shortly, for whoever changes something.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/pforte/pforte/deploy/test/bench/internal/bare"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := do(ctx, os.Args[1:])
	stop()
	if err != nil && err != flag.ErrHelp { //nolint:errorlint // as flag gives it
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// do measures, or is the server that does nothing, which is started by who
// measures: "bench bare", at ADDR.
func do(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "bare" {
		return bare.Serve(ctx, os.Getenv("ADDR"))
	}
	return run(ctx, args, os.Stdout)
}

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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && err != flag.ErrHelp { //nolint:errorlint // as flag gives it
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Command receipt checks signed receipts offline and makes the keys that sign
// them. See `receipt --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pforte/pforte/pkg/buildinfo"
	"github.com/pforte/pforte/pkg/cmd/receipt/internal/app"
)

// version is set by the linker in released builds.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Run(ctx, os.Args[1:], app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, buildinfo.Version(version))
	stop()
	os.Exit(code)
}

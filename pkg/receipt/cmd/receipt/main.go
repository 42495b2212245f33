// Command receipt checks signed receipts offline and makes the keys that sign
// them. See `receipt --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/pforte/pforte/pkg/receipt/cmd/receipt/internal/app"
)

// version is set by the linker in released builds.
var version string

func main() {
	if info, ok := debug.ReadBuildInfo(); version == "" && ok {
		version = info.Main.Version // of `go install module@version`
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Run(ctx, os.Args[1:], app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, version)
	stop()
	os.Exit(code)
}

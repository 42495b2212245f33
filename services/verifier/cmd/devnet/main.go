// Command devnet runs a development chain with a USD token and an x402
// facilitator on it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/pforte/pforte/pkg/buildinfo"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

// version is set by the linker.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := devnet.Run(ctx, buildinfo.Version(version), os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "devnet:", err)
		os.Exit(1)
	}
}

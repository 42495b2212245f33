// Command agent buys verifications over x402 and checks the receipts offline. See "agent --help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pforte/pforte/pkg/buildinfo"
	"github.com/pforte/pforte/services/verifier/internal/agent"
)

// version is set by the linker.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := agent.Run(ctx, buildinfo.Version(version), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

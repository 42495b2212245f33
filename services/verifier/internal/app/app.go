package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pforte/pforte/pkg/serve"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

const usage = `verifier sells signed evidence about finalized transactions of public chains.

  verifier [serve]        serve until stopped
  verifier migrate        bring the ledger's tables up to date, and end
  verifier payments list  list payments, newest first
  verifier payments sum   sum payments by month, token and state
  verifier payments resolve --payer ADDRESS --nonce NONCE [--network ID --asset ADDRESS]
      settled --transaction HASH --reason TEXT | dead --reason TEXT
                          decide by hand what became of an unknown payment
  verifier healthcheck    fail unless the service on this machine is ready
  verifier --help | --version

payments takes --state working|settling|settled|dead|unknown, --from DATE and
--before DATE (2006-01-02, UTC), --json, and list also --limit N (100).

Settings are environment variables; a secret NAME may come as NAME_FILE:

`

// Env is the world around the program.
type Env struct {
	Args           []string
	Getenv         func(string) string
	Stdout, Stderr io.Writer
	// Version is what --version prints.
	Version string

	// For tests: at is told of each point of a sale, ready of the address, and
	// heartbeat makes the heartbeats of the ledger come faster.
	at        func(paywall.Point)
	ready     func(address string)
	heartbeat time.Duration
}

// ErrUsage is returned for arguments that the program does not know.
var ErrUsage = errors.New("see verifier --help")

// Run is the program. It returns nil after a stop by ctx.
func Run(ctx context.Context, e Env) error {
	command := "serve"
	if len(e.Args) > 0 {
		command = e.Args[0]
	}
	switch {
	case command == "--help" || command == "-h" || command == "help":
		_, err := io.WriteString(e.Stdout, usage+config.Table())
		return err
	case command == "--version":
		_, err := fmt.Fprintln(e.Stdout, "verifier", e.Version)
		return err
	case command == "payments":
		return payments(ctx, e)
	case len(e.Args) > 1:
		return fmt.Errorf("unknown argument %q; %w", e.Args[1], ErrUsage)
	case command == "serve":
		return serveAll(ctx, e)
	case command == "migrate":
		return migrate(ctx, e)
	case command == "healthcheck":
		return healthcheck(ctx, e)
	}
	return fmt.Errorf("unknown command %q; %w", command, ErrUsage)
}

// healthcheck needs only ADDR, so that it works beside any settings.
func healthcheck(ctx context.Context, e Env) error {
	addr := e.Getenv("ADDR")
	if addr == "" {
		addr = ":8082"
	}
	return serve.Healthcheck(ctx, addr, "/health")
}

// Command devnet runs a development chain that has a USD token, an x402 facilitator for it and, with
// BEACON_ADDR, a beacon node.
package main

import (
	"context"
	"fmt"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

// version is set by the linker.
var version string

func main() {
	service.Main(version, func(ctx context.Context, p service.Process) int {
		if err := devnet.Run(ctx, p.Version, p.Args, p.Getenv, p.Stdout, p.Stderr); err != nil {
			_, _ = fmt.Fprintln(p.Stderr, "devnet:", err)
			return 1
		}
		return 0
	})
}

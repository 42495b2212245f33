// Command verifier sells signed evidence about finalized transactions. See "verifier --help".
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/app"
)

// version is set by the linker.
var version string

// memoryLimit is how many bytes of memory the verifier has before Go collects garbage more often, unless GOMEMLIMIT is
// set. Without it, the garbage of as many large blocks as are read at once could take as much memory again as they
// need, and containers have 512 MB.
const memoryLimit = 320 << 20

func main() {
	limitMemory()
	service.Main(version, func(ctx context.Context, p service.Process) int {
		return app.Run(ctx, app.Process{Process: p})
	})
}

func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

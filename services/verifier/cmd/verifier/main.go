// Command verifier sells signed evidence about finalized transactions. See "verifier --help".
package main

import (
	"context"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/app"
)

// version is set by the linker.
var version string

func main() {
	service.Main(version, func(ctx context.Context, p service.Process) int {
		return app.Run(ctx, app.Process{Process: p})
	})
}

// Command auth stores users and their sessions, and answers whether a request is logged in. Run "auth --help".
package main

import (
	"context"
	"runtime"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/app"
)

// version is set by the linker.
var version string

func main() {
	// A password takes one of Go's processors for 0.2 s; with all of them taken
	// every other request waits 10 ms for each of its steps. There are twice as many,
	// of which passwords take half (password.Options): the other half is free for
	// other requests, and the kernel shares the machine.
	runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
	service.Main(version, func(ctx context.Context, p service.Process) int {
		return app.Run(ctx, app.Process{Process: p})
	})
}

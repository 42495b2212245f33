// Command pforte-proxy is Caddy with Pforte's Caddyfile built in. Without
// arguments it runs that file; "check" checks the settings, and "healthcheck"
// a running proxy; any other arguments are the caddy command's.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // all of Caddy's own modules
	"github.com/google/uuid"

	_ "github.com/pforte/pforte/proxy/edge" // and ours
)

// version is set by the linker.
var version = "devel"

// heapBallast is how many bytes are allocated at the start, so that about as much more garbage accumulates before Go
// collects it. They are never written, so they take no physical memory. A heap as small as a proxy's would be
// collected dozens of times a second (pkg/service does the same for the services).
const heapBallast = 16 << 20

// memoryLimit is how many bytes of memory the proxy has before Go collects garbage more often, unless GOMEMLIMIT is
// set. Without it, the garbage of as many connections as there may be could take as much memory again as they need.
const memoryLimit = 128 << 20

func main() {
	if err := prepare(version); err != nil {
		fmt.Fprintln(os.Stderr, "pforte-proxy:", err)
		os.Exit(1)
	}
	if note := noWildcard(); note != "" {
		fmt.Fprintln(os.Stderr, "pforte-proxy:", note)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
		// Caddy sets nine tenths of the container's or the machine's memory where the variable is not there.
		if err := os.Setenv("GOMEMLIMIT", strconv.Itoa(memoryLimit)); err != nil {
			fmt.Fprintln(os.Stderr, "pforte-proxy: setting GOMEMLIMIT:", err)
			os.Exit(1)
		}
	}
	uuid.EnableRandPool() // of request ids: one call to the kernel for sixteen
	ballast := make([]byte, heapBallast)
	caddycmd.Main()
	runtime.KeepAlive(ballast)
}

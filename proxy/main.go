// Command pforte-proxy is Caddy with Pforte's Caddyfile built in. Without
// arguments it runs that file; "healthcheck" asks a running one whether it
// lives; any other arguments are the caddy command's.
package main

import (
	"fmt"
	"os"
	"runtime"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // all of Caddy's own modules

	_ "github.com/pforte/pforte/proxy/edge" // and ours
)

// version is set by the linker.
var version = "devel"

// heapRoom lets garbage gather before it is collected, in bytes; nothing touches
// them, so that they are addresses and no memory. Of a heap as small as a proxy's
// Go would collect it dozens of times a second (package serve of the services
// does the same).
const heapRoom = 32 << 20

func main() {
	if err := prepare(version); err != nil {
		fmt.Fprintln(os.Stderr, "pforte-proxy:", err)
		os.Exit(1)
	}
	room := make([]byte, heapRoom)
	caddycmd.Main()
	runtime.KeepAlive(room)
}

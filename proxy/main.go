// Command pforte-proxy is Caddy with Pforte's Caddyfile built in. Without
// arguments it runs that file; "healthcheck" asks a running one whether it
// lives; any other arguments are the caddy command's.
package main

import (
	"fmt"
	"os"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // all of Caddy's own modules
)

// version is set by the linker.
var version = "devel"

func main() {
	if err := prepare(version); err != nil {
		fmt.Fprintln(os.Stderr, "pforte-proxy:", err)
		os.Exit(1)
	}
	caddycmd.Main()
}

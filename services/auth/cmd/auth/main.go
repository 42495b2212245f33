// Command auth keeps the users of a household and their sessions. Run
// "auth --help".
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/pforte/pforte/pkg/buildinfo"
	"github.com/pforte/pforte/services/auth/internal/app"
)

// version is set by the linker.
var version string

func main() {
	// A password takes one of Go's processors for 0.2 s; with all of them taken
	// every other request waits 10 ms for each of its steps. With as many again
	// it always finds one free, and the kernel shares the machine.
	runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	code := app.Run(ctx, app.Process{
		Args: os.Args[1:], Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: buildinfo.Version(version),
	})
	stop()
	os.Exit(code)
}

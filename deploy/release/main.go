// Command release makes the archives that are published, from programs that were
// built before. `make release` runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/pforte/pforte/deploy/internal/release"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o release.Options
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.Version, "version", "", "what is released")
	epoch := flags.Int64("epoch", 0, "seconds since 1970: the time of everything in the archives")
	flags.StringVar(&o.Top, "top", ".", "the project's folder")
	flags.StringVar(&o.Built, "built", "", "folder with a folder of programs for every platform")
	flags.StringVar(&o.Cache, "modcache", "", "Go's GOMODCACHE")
	flags.StringVar(&o.Root, "goroot", "", "Go's GOROOT")
	flags.StringVar(&o.Out, "out", "", "where the archives go")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.Version == "" || o.Built == "" || o.Cache == "" || o.Root == "" || o.Out == "" || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("something is missing, or too much")
	}
	o.At = time.Unix(*epoch, 0)
	names, err := release.Make(o)
	for _, name := range names {
		fmt.Println(name)
	}
	return err
}

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"

	"github.com/pforte/pforte/pkg/buildinfo"
	"github.com/pforte/pforte/pkg/config"
)

const usage = `local runs the whole stack on this machine.

  local [-bin bin] [-state .pforte]        start everything; Ctrl-C stops it
  local [-bin bin] [-state .pforte] demo [ARGUMENT...]
                                           pay for a verification there; the
                                           arguments are the agent's
  local --version, --help

Settings are environment variables:

`

func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	flags := flag.NewFlagSet("local", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { _, _ = io.WriteString(out, usage+config.Table[Settings]()) }
	bin := flags.String("bin", "bin", "folder of the built programs")
	state := flags.String("state", ".pforte", "folder of everything that is kept")
	showVersion := flags.Bool("version", false, "show the version")
	if err := flags.Parse(args); err != nil {
		return ignoreHelp(err)
	}
	if *showVersion {
		_, err := fmt.Fprintln(out, "local", buildinfo.Version(version))
		return err
	}
	settings, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	absBin, err := filepath.Abs(*bin)
	if err != nil {
		return err
	}
	absState, err := filepath.Abs(*state)
	if err != nil {
		return err
	}
	l := settings.layout(absBin, absState)
	switch flags.Arg(0) {
	case "":
		return up(ctx, l, out)
	case "demo":
		return demo(l, flags.Args()[1:])
	}
	return fmt.Errorf("no command %q; see local --help", flags.Arg(0))
}

func ignoreHelp(err error) error {
	if err == flag.ErrHelp { //nolint:errorlint // returned as it is
		return nil
	}
	return err
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	bin, state string
	runs       int
	seed       uint64
	worlds     int
	chaos      time.Duration
	within     time.Duration
	figures    string
	clocks     bool
	verbose    bool

	soak, every time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder of the built programs")
	flag.StringVar(&o.state, "state", "", "folder for state, logs and journals; default: a new temporary one")
	flag.IntVar(&o.runs, "runs", 200, "how many runs")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the first run; each next one has the next seed")
	flag.IntVar(&o.worlds, "worlds", 3, "how many stacks run side by side")
	flag.DurationVar(&o.chaos, "chaos", 2500*time.Millisecond, "how long the faults of one run last")
	flag.DurationVar(&o.within, "within", 24*time.Hour, "begin no run later than this")
	flag.BoolVar(&o.clocks, "clocks", false, "set the clocks of auth and verifier wrong, which are built for it (folder clock)")
	flag.StringVar(&o.figures, "figures", "", "file to add the figures to, so that several campaigns are one")
	flag.BoolVar(&o.verbose, "v", false, "print the journal of every run")
	flag.DurationVar(&o.soak, "soak", 0, "in place of runs with faults, load one stack for so long")
	flag.DurationVar(&o.every, "every", 30*time.Second, "with -soak, the time between two samples")
	flag.Parse()
	if err := start(o); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// start runs the campaign where it has disks of its own that can be full.
func start(o options) error {
	if err := inOwnMounts(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.state == "" {
		var err error
		if o.state, err = os.MkdirTemp("", "pforte-faults-"); err != nil {
			return err
		}
	}
	if o.soak > 0 {
		return soak(ctx, o)
	}
	f, err := readFigures(o.figures)
	if err != nil {
		return err
	}
	err = newCampaign(o, f).run(ctx)
	fmt.Print(f.page())
	return errors.Join(err, f.write(o.figures))
}

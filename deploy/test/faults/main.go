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

// options is what a campaign is told.
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
	flag.BoolVar(&o.clocks, "clocks", false, "turn the clocks of auth and verifier, which are built for it (folder clock)")
	flag.StringVar(&o.figures, "figures", "", "file to add the figures to, so that several campaigns are one")
	flag.BoolVar(&o.verbose, "v", false, "print the journal of every run")
	flag.Parse()
	if err := start(o); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
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
		if o.state, err = os.MkdirTemp("", "pforte-chaos-"); err != nil {
			return err
		}
	}
	f, err := readFigures(o.figures)
	if err != nil {
		return err
	}
	err = newCampaign(o, f).run(ctx)
	fmt.Print(f.page())
	return errors.Join(err, f.write(o.figures))
}

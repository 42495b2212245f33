package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/freeport"
)

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder of the built programs")
	flag.StringVar(&o.state, "state", "", "folder for state, logs and samples.csv; default: a new temporary one")
	flag.DurationVar(&o.duration, "duration", 2*time.Hour, "how long to run")
	flag.DurationVar(&o.every, "every", 30*time.Second, "time between two samples")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

type options struct {
	bin, state      string
	duration, every time.Duration
}

// run starts a stack, loads it, takes samples, and judges them.
func run(ctx context.Context, o options) error {
	l, err := newLayout(ctx, o)
	if err != nil {
		return err
	}
	programs, err := stack.New(l.Path("logs"))
	if err != nil {
		return err
	}
	defer programs.Stop(context.Background(), 10*time.Second) //nolint:contextcheck // also when ctx has ended
	if err := start(ctx, l, programs); err != nil {
		return err
	}
	fmt.Printf("soak: %s, state in %s\n", o.duration, l.State)
	load, err := newLoad(l)
	if err != nil {
		return err
	}
	samples, err := watch(ctx, l, load, o)
	if err != nil {
		return err
	}
	end, err := settle(context.WithoutCancel(ctx), l, load) // a run that is ended early is judged as well
	if err != nil {
		return err
	}
	return report(os.Stdout, samples, end, load)
}

func newLayout(ctx context.Context, o options) (layout.Layout, error) {
	a, err := freeport.Addrs(ctx, 9)
	if err != nil {
		return layout.Layout{}, err
	}
	if o.state == "" {
		if o.state, err = os.MkdirTemp("", "pforte-soak-"); err != nil {
			return layout.Layout{}, err
		}
	}
	state, err := filepath.Abs(o.state)
	if err != nil {
		return layout.Layout{}, err
	}
	bin, err := filepath.Abs(o.bin)
	l := layout.Layout{
		Bin: bin, State: state,
		Addresses: layout.Addresses{
			Proxy: a[0], ProxyAdmin: a[1], Auth: a[2], AuthAdmin: a[3], Verifier: a[4], VerifierAdmin: a[5],
			Chain: a[6], Facilitator: a[7], Redis: a[8],
		},
		PublicURL: "http://" + a[0],
		Extra: map[string]map[string]string{
			// Each wrong login counts against a window that ends within the run.
			"auth": {"RATE_LIMIT_WINDOW_MS": "5000", "LOG_LEVEL": "warn"},
			// What is kept on purpose is full long before the second half.
			"verifier": {"FACILITATOR_FREE_SETTLEMENTS": "1000000", "CHAIN_CACHE_BYTES": "1048576", "LOG_LEVEL": "warn"},
		},
	}
	return l, errors.Join(err, l.Prepare())
}

func start(ctx context.Context, l layout.Layout, programs *stack.Stack) error {
	const within = time.Minute
	if _, err := l.StartRedis(ctx, programs); err != nil {
		return err
	}
	if err := programs.Start(ctx, within, l.Devnet()); err != nil {
		return err
	}
	return programs.Start(ctx, within, l.Auth(), l.Verifier(), l.Proxy())
}

// watch loads the stack for the time of the run and samples it meanwhile.
func watch(ctx context.Context, l layout.Layout, load *load, o options) ([]sample, error) {
	file, err := os.Create(l.Path("samples.csv"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	ctx, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	done := load.start(ctx)
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	var samples []sample
	for begin := time.Now(); ; {
		select {
		case <-ctx.Done():
			<-done
			return samples, nil
		case <-tick.C:
			s, err := take(ctx, l)
			if err != nil {
				load.fail("sample", err)
				continue
			}
			s["minute"] = time.Since(begin).Minutes()
			samples = append(samples, s)
			if err := s.write(file, len(samples) == 1); err != nil {
				return nil, err
			}
		}
	}
}

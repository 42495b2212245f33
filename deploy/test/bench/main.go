// Command bench measures Pforte beside its peers and writes
// deploy/docs/performance.md. Run it as `make bench`; BENCH=quick measures
// shortly and only shows the page.
//
// The load comes from wrk, which must be installed. Each of its clients has a
// session or payments of its own. Compared servers run side by side and take
// turns, and what is compared is divided turn by turn, because the speed of a
// machine changes within seconds.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// clients is how many clients a load has, which keeps every server busy.
const clients = 64

// suite is what to measure with.
type suite struct {
	// top is the folder of the project, bin that of the built programs, scratch
	// one for everything that is thrown away.
	top, bin, scratch string
	// rounds is how often each figure is measured; compared figures are measured
	// turns times as often, for turnLength each.
	rounds     int
	turnLength time.Duration
	// sessions is how many sessions the clients of a load use.
	sessions int
	output   io.Writer
	page     page
}

var sections = []struct {
	name string
	run  func(*suite, context.Context) error
}{
	{"accounts", (*suite).accounts},
	{"storm", (*suite).storm},
	{"paywall", (*suite).paywall},
	{"sessions", (*suite).manySessions},
	{"users", (*suite).manyUsers},
	{"evidence", (*suite).evidence},
	{"footprint", (*suite).footprint},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if failure := (*stack.Failure)(nil); errors.As(err, &failure) {
		err = fmt.Errorf("%w\n%s", err, strings.Join(failure.Last, "\n"))
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures everything and writes the page.
func run(ctx context.Context, args []string, output io.Writer) (err error) {
	s := &suite{output: output}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&s.top, "top", ".", "folder of the project")
	flags.StringVar(&s.bin, "bin", "bin", "folder of the built programs")
	page := flags.String("out", "", "the page to write; none: standard output")
	quick := flags.Bool("quick", false, "measure shortly")
	flags.IntVar(&s.rounds, "rounds", 0, "rounds of each measurement; 0: 5, or 1")
	flags.DurationVar(&s.turnLength, "turn", time.Second, "how long each turn lasts, in whole seconds")
	only := flags.String("only", "", "sections to measure, with commas between; none: all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.rounds, s.sessions = cmp.Or(s.rounds, 5), clients
	if *quick {
		s.rounds, s.sessions = 1, 8
	}
	if s.scratch, err = os.MkdirTemp("", "pforte-bench-"); err != nil {
		return fmt.Errorf("scratch folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(s.scratch) }()
	if s.top, err = filepath.Abs(s.top); err != nil {
		return err
	}
	if s.bin, err = filepath.Abs(s.bin); err != nil {
		return err
	}
	began := time.Now()
	s.head(ctx)
	for _, section := range sections {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), section.name) {
			continue
		}
		s.progress("== %s", section.name)
		if err := section.run(s, ctx); err != nil {
			return fmt.Errorf("%s: %w", section.name, err)
		}
	}
	s.progress("done in %v", time.Since(began).Round(time.Second))
	if *page == "" {
		_, err = fmt.Fprint(output, s.page.String())
		return err
	}
	return os.WriteFile(*page, []byte(s.page.String()), 0o644) //nolint:gosec // a public page
}

func (s *suite) head(ctx context.Context) {
	p := &s.page
	p.line("# Performance")
	p.line("\n`make bench` writes this page: measured on %s, %d rounds. A figure is the median of the rounds, with the least and the greatest.", time.Now().UTC().Format(time.DateOnly), s.rounds)
	p.line("The load comes from wrk on the same machine: %d clients, with a session or payments of their own, where nothing else stands. Compared servers run side by side\n"+
		"and take %d turns of %v each; ratios are those of turns next to each other.\n", clients, turns*s.rounds, s.turnLength)
	kilobytes, _ := strconv.Atoi(strings.TrimSuffix(valueIn("/proc/meminfo", "MemTotal"), " kB")) // 0 where the kernel does not report it
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	p.line("Machine: %s, %d cores, %d GB of memory, Linux %s, %s.", valueIn("/proc/cpuinfo", "model name"), runtime.NumCPU(), (kilobytes+512<<10)>>20, strings.TrimSpace(string(kernel)), runtime.Version())
	redis, _, _ := strings.Cut(version(ctx, "redis-server", "--version"), " sha=")
	p.line("Peers run on Node %s; sessions are in %s.", version(ctx, "node", "--version"), redis)
}

// version returns the first line that a program prints about its version.
func version(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).Output() //nolint:gosec // our own arguments
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

func (s *suite) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(s.output, format+"\n", args...)
}

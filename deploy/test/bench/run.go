package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/bench/internal/suite"
)

// run reads the flags, measures and writes the page.
func run(ctx context.Context, args []string, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	top := flags.String("top", ".", "folder of the project")
	bin := flags.String("bin", "bin", "folder of the built programs")
	out := flags.String("out", "", "the page to write; none: standard output")
	quick := flags.Bool("quick", false, "measure shortly")
	rounds := flags.Int("rounds", 0, "rounds of each measurement; 0: 5, or 3")
	duration := flags.Duration("for", 0, "how long each round lasts; 0: 2s, or 1s")
	only := flags.String("only", "", "sections to measure, with commas between; none: all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "pforte-bench-")
	if err != nil {
		return fmt.Errorf("scratch folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	s := &suite.Suite{Scratch: scratch, Rounds: cmp.Or(*rounds, 5), For: cmp.Or(*duration, 2*time.Second), Progress: progress, Now: time.Now}
	if *quick {
		s.Rounds, s.For = cmp.Or(*rounds, 3), cmp.Or(*duration, time.Second)
	}
	if *only != "" {
		s.Only = strings.Split(*only, ",")
	}
	if s.Top, err = filepath.Abs(*top); err != nil {
		return err
	}
	if s.Bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	text, err := s.Run(ctx)
	if failure := (*stack.Failure)(nil); errors.As(err, &failure) {
		return fmt.Errorf("%w\n%s", err, strings.Join(failure.Last, "\n"))
	}
	if err != nil {
		return err
	}
	if *out == "" {
		_, err = fmt.Fprint(progress, text)
		return err
	}
	return os.WriteFile(*out, []byte(text), 0o644) //nolint:gosec // a page for everybody
}

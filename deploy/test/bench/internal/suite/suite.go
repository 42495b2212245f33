package suite

import (
	"context"
	_ "embed" // profiles.md
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/test/bench/internal/machine"
)

// Suite is what to measure with. All members are required.
type Suite struct {
	// Top is the folder of the project, Bin that of the built programs, Scratch
	// one for everything that is thrown away.
	Top, Bin, Scratch string
	// Rounds is how often each figure is measured, For how long each time.
	Rounds int
	For    time.Duration
	// Only narrows to the sections whose names it holds; empty: all of them.
	Only []string
	// Progress is told what is going on.
	Progress io.Writer
	Now      func() time.Time
}

// profiles says what was made faster, and what showed that it was slow.
//
//go:embed profiles.md
var profiles string

// section is a part of the page.
type section struct {
	name string
	run  func(*Suite, context.Context, *page) error
}

var sections = []section{
	{"accounts", (*Suite).accounts},
	{"storm", (*Suite).storm},
	{"paywall", (*Suite).paywall},
	{"sessions", (*Suite).sessions},
	{"users", (*Suite).users},
	{"evidence", (*Suite).evidence},
	{"footprint", (*Suite).footprint},
}

// Run measures everything and gives the page.
func (s *Suite) Run(ctx context.Context) (string, error) {
	if s.Top == "" || s.Bin == "" || s.Scratch == "" || s.Rounds < 1 || s.For <= 0 || s.Progress == nil || s.Now == nil {
		return "", errors.New("suite: an option is missing")
	}
	began := s.Now()
	p := &page{}
	s.head(ctx, p)
	for _, section := range sections {
		if !s.wants(section.name) {
			continue
		}
		s.progress("== %s", section.name)
		if err := section.run(s, ctx, p); err != nil {
			return "", fmt.Errorf("%s: %w", section.name, err)
		}
	}
	p.line("\n%s", profiles)
	s.progress("done in %v", s.Now().Sub(began).Round(time.Second))
	return p.String(), nil
}

func (s *Suite) wants(name string) bool {
	for _, wanted := range s.Only {
		if wanted == name {
			return true
		}
	}
	return len(s.Only) == 0
}

func (s *Suite) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Progress, format+"\n", args...)
}

func (s *Suite) head(ctx context.Context, p *page) {
	p.line("# Performance")
	p.line("\n`make bench` writes this page: measured on %s, %d rounds of %v each. A figure is the median of the rounds, with the least and the greatest.", s.Now().UTC().Format(time.DateOnly), s.Rounds, s.For)
	p.line("Compared servers run side by side and are asked in turn, %d turns of %v each; who asks shares the machine with them.\n"+
		"Of many callers the answers are looked at every 0.2 ms, as a network card gathers packets, so that no server pays for waking whoever asks.\n", turns*s.Rounds, turn(s.For))
	p.line("Machine: %s.", machine.Describe())
	p.line("Peers run on Node %s; sessions are in %s.", machine.Version(ctx, "node", "--version"), redisVersion(ctx))
}

// folder makes a fresh folder below Scratch.
func (s *Suite) folder(name string) (string, error) {
	path := filepath.Join(s.Scratch, name)
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	return path, os.MkdirAll(path, 0o700)
}

// redisVersion is the program's name and number without what it was built with.
func redisVersion(ctx context.Context) string {
	version, _, _ := strings.Cut(machine.Version(ctx, "redis-server", "--version"), " sha=")
	return version
}

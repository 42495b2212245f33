package bench

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// The flags; make bench and make profile set them.
var (
	top       = flag.String("top", "../../..", "folder of the project")
	bin       = flag.String("bin", "", "folder of the built programs, with profiled/ in it; none: nothing is measured")
	out       = flag.String("out", "", "the page to write, in which sections that are not measured stay, and a picture beside it; none: nothing is kept")
	quick     = flag.Bool("quick", false, "measure shortly")
	manyTimes = flag.Int("rounds", 0, "rounds of each measurement; 0: 4, or 1 with -quick")
	budget    = flag.Duration("for", 35*time.Minute, "how long all sections may take; one that has not ended by then keeps its earlier result")
)

// longest is how long one section may take, so that one that hangs leaves time for
// the others.
const longest = 8 * time.Minute

// suite is what to measure with.
type suite struct {
	*testing.T
	*page
	// limited ends when the section has taken too long.
	limited context.Context //nolint:containedctx // of the one section, as testing.T has one
	// top is the folder of the project, bin that of the built programs, profiles where
	// profiles go.
	top, bin, profiles string
	// rounds is how often each figure is measured; compared loads take turns times as
	// many turns of a second each.
	rounds int
	// sessions is how many sessions the clients of a load use, most how much a grown
	// store holds, and step how long each load of an overload or a profile lasts.
	sessions, most int
	step           time.Duration
	// order is the body of a call to buy.
	order string
}

// sections measure one part of the page each, the more important ones first:
// -test.run=Bench/overload measures one.
var sections = []struct {
	name    string
	measure func(*suite)
}{
	{"before", (*suite).before},
	{"routes", (*suite).routes},
	{"page", (*suite).assets},
	{"peers", (*suite).peers},
	{"overload", (*suite).overload},
	{"flood", (*suite).floods},
	{"logins", (*suite).loginsBesidePeers},
	{"sign-in", (*suite).signIns},
	{"sqlite", func(s *suite) { s.ledgerGrows("SQLite") }},
	{"footprint", (*suite).footprint},
	{"tools", (*suite).tools},
	{"log", (*suite).receiptLog},
	{"sessions", (*suite).sessionsGrow},
	{"postgres", func(s *suite) { s.ledgerGrows("Postgres") }},
	{"evidence", (*suite).evidence},
	{"log growth", (*suite).logGrows},
	{"profiles", (*suite).profile},
}

func TestBench(t *testing.T) {
	if *bin == "" {
		t.Skip("make bench runs it")
	}
	s := suite{T: t, limited: t.Context(), page: &page{}, rounds: cmp.Or(*manyTimes, 4), sessions: clients, most: 1_000_000, step: 3 * time.Second}
	if *quick {
		s.rounds, s.sessions, s.most, s.step = cmp.Or(*manyTimes, 1), 16, 100_000, 2*time.Second
	}
	var err error
	s.top, err = filepath.Abs(*top)
	s.must(err)
	s.bin, err = filepath.Abs(*bin)
	s.must(err)
	s.profiles = filepath.Join(s.bin, "profiles")
	s.order = s.readOrder()
	end := time.Now().Add(*budget)
	for _, section := range sections {
		began := time.Now()
		within := min(longest, end.Sub(began))
		measured := page{measured: s.rounds}
		ended := s.Run(section.name, func(t *testing.T) {
			if within <= 0 {
				t.Skip("no time is left")
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			s.in(ctx, t, &measured, section.measure)
		})
		if !ended || measured.Len() == 0 {
			continue
		}
		s.progress("%s", measured.String())
		s.progress("%s: done in %v", section.name, time.Since(began).Round(time.Second))
		if *out != "" { // at once, so that a run that is cut off has a page
			s.must(publish(*out, section.name, s.textOf(&measured), measured.picture))
		}
	}
}

// in measures something in a test of its own, on a page of its own: what it starts
// ends with it, or with ctx.
func (s *suite) in(ctx context.Context, t *testing.T, onto *page, measure func(*suite)) {
	part := *s
	part.T, part.page, part.limited = t, onto, ctx
	measure(&part)
}

// Context is the section's.
func (s *suite) Context() context.Context { return s.limited }

// section measures a part of a section in a test of its own.
func (s *suite) section(name string, measure func(*suite)) {
	s.Run(name, func(t *testing.T) { s.in(s.limited, t, s.page, measure) })
}

// must ends the section when something failed.
func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(stack.Explain(err))
	}
}

// progress shows at once how far it is.
func (s *suite) progress(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// version returns the first line that a program prints about its version.
func (s *suite) version(program string) string {
	out, err := exec.CommandContext(s.Context(), program, "--version").Output()
	s.must(err)
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

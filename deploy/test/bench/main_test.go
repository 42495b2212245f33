package bench

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// The flags; make bench and make profile set them.
var (
	top       = flag.String("top", "../../..", "folder of the project")
	bin       = flag.String("bin", "", "folder of the built programs, with profiled/ in it; none: nothing is measured")
	out       = flag.String("out", "", "the page to write, and a picture beside it; none: the page is shown")
	quick     = flag.Bool("quick", false, "measure shortly")
	manyTimes = flag.Int("rounds", 0, "rounds of each measurement; 0: 4, or 1 with -quick")
)

// suite is what to measure with.
type suite struct {
	*testing.T
	*page
	// top is the folder of the project, bin that of the built programs, profiles where
	// profiles go, picture the file of the picture of the overload.
	top, bin, profiles, picture string
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

// sections measure one part of the page each: -test.run=Bench/overload measures one.
var sections = []struct {
	name    string
	measure func(*suite)
}{
	{"peers", (*suite).peers},
	{"growth", (*suite).growth},
	{"evidence", (*suite).evidence},
	{"overload", (*suite).overload},
	{"footprint", (*suite).footprint},
	{"profiles", (*suite).profile},
}

func TestBench(t *testing.T) {
	if *bin == "" {
		t.Skip("make bench runs it")
	}
	s := suite{T: t, page: &page{}, rounds: cmp.Or(*manyTimes, 4), sessions: clients, most: 1_000_000, step: 4 * time.Second}
	if *quick {
		s.rounds, s.sessions, s.most, s.step = cmp.Or(*manyTimes, 1), 16, 100_000, 2*time.Second
	}
	var err error
	s.top, err = filepath.Abs(*top)
	s.must(err)
	s.bin, err = filepath.Abs(*bin)
	s.must(err)
	s.profiles, s.picture = filepath.Join(s.bin, "profiles"), filepath.Join(s.bin, "performance.svg")
	if *out != "" {
		s.picture = strings.TrimSuffix(*out, ".md") + ".svg"
	}
	s.order = s.readOrder()
	s.head()
	began := time.Now()
	for _, section := range sections {
		s.section(section.name, section.measure)
	}
	s.progress("done in %v", time.Since(began).Round(time.Second))
	if *out == "" {
		s.progress("%s", s.page)
	} else if !t.Failed() {
		s.must(os.WriteFile(*out, []byte(s.page.String()), 0o644))
	}
}

// section measures one part in a test of its own: what it starts ends with it.
func (s *suite) section(name string, measure func(*suite)) {
	s.Run(name, func(t *testing.T) {
		part := *s
		part.T = t
		measure(&part)
	})
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

func (s *suite) head() {
	s.line("# Performance")
	s.line("\n`make bench` writes this page: measured on %s, %d rounds. A figure is the median of the rounds, with the least and the greatest.", time.Now().UTC().Format(time.DateOnly), s.rounds)
	s.line("The load comes from wrk on the same machine: %d clients, with a session or payments of their own. Compared servers run side by side\n"+
		"and take %d turns of a second each; ratios are those of turns next to each other.\n", clients, turns*s.rounds)
	kilobytes, _ := strconv.Atoi(strings.TrimSuffix(valueIn("/proc/meminfo", "MemTotal"), " kB")) // 0 where the kernel does not report it
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	s.line("Machine: %s, %d cores, %d GB of memory, Linux %s, %s.", valueIn("/proc/cpuinfo", "model name"), runtime.NumCPU(), (kilobytes+512<<10)>>20, strings.TrimSpace(string(kernel)), runtime.Version())
	redis, _, _ := strings.Cut(s.version("redis-server"), " sha=")
	s.line("Peers run on Node %s; sessions are in %s.", s.version("node"), redis)
}

// version returns the first line that a program prints about its version.
func (s *suite) version(program string) string {
	out, err := exec.CommandContext(s.Context(), program, "--version").Output()
	s.must(err)
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

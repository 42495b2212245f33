package faults

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// The flags; make chaos and make soak set them. Without -runs and -soak there is
// neither a campaign nor load.
var (
	bin         = flag.String("bin", "", "folder of the built programs")
	state       = flag.String("state", "", "folder for state, logs and journals; default: a new temporary one")
	runs        = flag.Int("runs", 0, "how many runs the campaign has")
	firstSeed   = flag.Uint64("seed", 1, "seed of the first run; each next one has the next seed")
	worlds      = flag.Int("worlds", 3, "how many stacks run side by side")
	lasting     = flag.Duration("chaos", 2500*time.Millisecond, "how long the faults of one run last")
	wrongClocks = flag.Bool("clocks", false, "set the clocks of auth and verifier wrong, which are built for it (folder clock)")
	soak        = flag.Duration("soak", 0, "how long to load one stack without faults")
	every       = flag.Duration("every", 30*time.Second, "with -soak, the time between two samples")
)

// TestMain begins a campaign again where it may mount disks of its own, which can be
// full.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", strconv.Itoa(*worlds))
	if *runs > 0 {
		if err := inOwnMounts(); err != nil {
			fmt.Fprintln(os.Stderr, "mount disks:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// stateFolder returns the folder for state, which is kept.
func stateFolder(t *testing.T) string {
	t.Helper()
	if *state != "" {
		return *state
	}
	folder, err := os.MkdirTemp("", "pforte-faults-")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// interruptible returns a context that ends with Ctrl-C.
func interruptible(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	return ctx
}

// campaign is many runs in a few worlds, and what is counted over all of them.
type campaign struct {
	state string
	next  atomic.Int64 // run

	mu             sync.Mutex
	times          []time.Duration
	dirty          []uint64 // seeds
	counts, faults map[string]int
}

func TestPromises_HoldWhileEverythingFails(t *testing.T) {
	if *runs == 0 {
		t.Skip("make chaos runs it")
	}
	c := &campaign{state: stateFolder(t), counts: map[string]int{}, faults: map[string]int{}}
	ctx := interruptible(t)
	t.Run("worlds", func(t *testing.T) {
		for i := range min(*worlds, *runs) {
			t.Run(fmt.Sprintf("world-%d", i+1), func(t *testing.T) {
				t.Parallel()
				c.inWorld(ctx, t)
			})
		}
	})
	fmt.Print(c.figures())
	if err := ctx.Err(); err != nil {
		t.Error(err)
	}
	if len(c.dirty) > 0 {
		t.Errorf("%d of %d runs are not clean: seeds %v", len(c.dirty), len(c.times), c.dirty)
	}
}

// inWorld does one run after the other in one world. A run that did not come to
// its faults, on a machine that is too busy, begins anew.
func (c *campaign) inWorld(ctx context.Context, t *testing.T) {
	w := newWorld(ctx, t, filepath.Join(c.state, filepath.Base(t.Name())))
	for ctx.Err() == nil {
		n := c.next.Add(1)
		if n > int64(*runs) {
			return
		}
		seed := *firstSeed + uint64(n-1)
		var r *run
		var err error
		for range 3 {
			r = &run{journal: newJournal(), world: w, seed: seed, random: source(seed, 0)}
			if err = r.do(ctx); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("seed %d: %s", seed, stack.Explain(err))
		}
		c.add(r)
	}
}

// add counts a run, and prints the journal of one that is not clean.
func (c *campaign) add(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := time.Since(r.journal.begin)
	c.times = append(c.times, took)
	for name, n := range r.counts {
		c.counts[name] += n
	}
	for _, name := range r.names {
		c.faults[name]++
	}
	state := "clean"
	if !r.clean() {
		state = "NOT CLEAN"
		c.dirty = append(c.dirty, r.seed)
		path := filepath.Join(c.state, fmt.Sprintf("seed-%d.journal", r.seed))
		_ = os.WriteFile(path, []byte(r.String()), 0o600) // it is printed, too
		_ = os.CopyFS(fmt.Sprintf("%s.logs.%d", path, time.Now().Unix()), os.DirFS(r.Path("logs")))
		fmt.Printf("%s\n  again: make chaos RUNS=1 SEED=%d\n  journal, also in %s:\n%s", strings.Join(r.violations, "\n"), r.seed, path, r)
	} else if testing.Verbose() {
		fmt.Print(r)
	}
	fmt.Printf("run %d/%d, seed %d: %s, %.1f s: %s\n", len(c.times), *runs, r.seed, state, took.Seconds(), strings.Join(r.names, ", "))
}

// figures returns what was counted as Markdown.
func (c *campaign) figures() string {
	if len(c.times) == 0 {
		return "no run was made\n"
	}
	var b strings.Builder
	slices.Sort(c.times)
	fmt.Fprintf(&b, "\n%d runs from seed %d: %d clean. The median run takes %.0f s.\n\n",
		len(c.times), *firstSeed, len(c.times)-len(c.dirty), c.times[len(c.times)/2].Seconds())
	table(&b, "Counted", c.counts)
	table(&b, "Fault", c.faults)
	if !ownDisks {
		b.WriteString("No disk was full: that needs root.\n")
	}
	return b.String()
}

func table(b *strings.Builder, what string, figures map[string]int) {
	fmt.Fprintf(b, "| %s | times |\n|---|---:|\n", what)
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		fmt.Fprintf(b, "| %s | %d |\n", name, figures[name])
	}
	b.WriteString("\n")
}

// journal is what happened in one run, and what must not have.
type journal struct {
	begin time.Time

	mu         sync.Mutex
	lines      []string
	violations []string
	counts     map[string]int
}

func newJournal() *journal { return &journal{begin: time.Now(), counts: map[string]int{}} }

// note adds a line.
func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%6.3f ", time.Since(j.begin).Seconds())+fmt.Sprintf(format, args...))
}

// violated notes that an invariant does not hold.
func (j *journal) violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.note("VIOLATION: %s", text)
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Contains(j.violations, text) {
		j.violations = append(j.violations, text)
	}
}

// count adds to a figure of the run.
func (j *journal) count(name string, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[name] += n
}

// clean reports whether all invariants hold.
func (j *journal) clean() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.violations) == 0
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n") + "\n"
}

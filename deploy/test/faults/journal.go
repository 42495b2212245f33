package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

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

// figures are what is counted over all runs, of one campaign or of several.
type figures struct {
	Seeds  []uint64
	Dirty  []uint64 // the seeds of runs that were not clean
	Counts map[string]int
	Faults map[string]int
	Times  []time.Duration
	Disks  bool // whether disks could be full
}

// readFigures reads what earlier campaigns counted, nothing where there is no such
// file.
func readFigures(path string) (*figures, error) {
	f := &figures{Counts: map[string]int{}, Faults: map[string]int{}, Disks: ownDisks}
	text, err := os.ReadFile(path) //nolint:gosec // named by the operator
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	return f, json.Unmarshal(text, f)
}

func (f *figures) write(path string) error {
	text, err := json.Marshal(f)
	if path == "" || err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// add adds one run.
func (f *figures) add(r *run, took time.Duration) {
	f.Seeds, f.Times = append(f.Seeds, r.seed), append(f.Times, took)
	if !r.clean() {
		f.Dirty = append(f.Dirty, r.seed)
	}
	for name, n := range r.counts {
		f.Counts[name] += n
	}
	for _, name := range r.names {
		f.Faults[name]++
	}
}

// page returns the figures as Markdown.
func (f *figures) page() string {
	if len(f.Seeds) == 0 {
		return "no run was made\n"
	}
	var b strings.Builder
	times := slices.Sorted(slices.Values(f.Times))
	fmt.Fprintf(&b, "\n%d runs with the seeds %d to %d: %d clean. The median run takes %.0f s.\n\n",
		len(f.Seeds), slices.Min(f.Seeds), slices.Max(f.Seeds), len(f.Seeds)-len(f.Dirty), times[len(times)/2].Seconds())
	table(&b, "Counted", f.Counts)
	table(&b, "Fault", f.Faults)
	if !f.Disks {
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

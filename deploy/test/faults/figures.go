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
	"time"
)

// figures are what is counted over all runs, of one campaign or of several.
type figures struct {
	Seeds  []uint64
	Dirty  []uint64 // the seeds of runs that were not clean
	Counts map[string]int
	Faults map[string]int
	Times  []time.Duration
	Disks  bool // whether disks could be full
}

// readFigures reads what earlier campaigns counted; a file that is not there is
// nothing.
func readFigures(path string) (*figures, error) {
	f := &figures{Counts: map[string]int{}, Faults: map[string]int{}, Disks: ownDisks}
	text, err := os.ReadFile(path) //nolint:gosec // named by whoever runs this
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

// page gives the figures as Markdown.
func (f *figures) page() string {
	if len(f.Seeds) == 0 {
		return "no run was made\n"
	}
	var b strings.Builder
	times := slices.Sorted(slices.Values(f.Times))
	fmt.Fprintf(&b, "\n%d runs with the seeds %d to %d: %d clean. A run takes %.0f s in the middle.\n\n",
		len(f.Seeds), slices.Min(f.Seeds), slices.Max(f.Seeds), len(f.Seeds)-len(f.Dirty), times[len(times)/2].Seconds())
	table(&b, "Counted", "times", f.Counts)
	table(&b, "Fault", "times", f.Faults)
	if !f.Disks {
		b.WriteString("No disk was full: that needs root.\n")
	}
	return b.String()
}

func table(b *strings.Builder, what, how string, figures map[string]int) {
	fmt.Fprintf(b, "| %s | %s |\n|---|---:|\n", what, how)
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		fmt.Fprintf(b, "| %s | %d |\n", name, figures[name])
	}
	b.WriteString("\n")
}

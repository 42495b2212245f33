package main

import (
	"fmt"
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

// note writes one line.
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

// clean tells whether all invariants hold.
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

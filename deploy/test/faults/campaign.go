package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// campaign is many runs in a few worlds.
type campaign struct {
	options
	begin time.Time

	mu    sync.Mutex
	done  int
	dirty []uint64 // seeds
	*figures
}

func newCampaign(o options, f *figures) *campaign {
	return &campaign{options: o, begin: time.Now(), figures: f}
}

// run does all runs and returns an error when one is not clean.
func (c *campaign) run(ctx context.Context) error {
	seeds := make(chan uint64)
	go func() {
		defer close(seeds)
		for i := range uint64(c.runs) {
			if time.Since(c.begin) > c.within {
				return
			}
			select {
			case seeds <- c.seed + i:
			case <-ctx.Done():
				return
			}
		}
	}()
	var all sync.WaitGroup
	failed := make([]error, min(c.worlds, c.runs))
	for i := range failed {
		all.Go(func() { failed[i] = c.inWorld(ctx, fmt.Sprintf("world-%d", i+1), seeds) })
	}
	all.Wait()
	if err := errors.Join(append(failed, ctx.Err())...); err != nil {
		return err
	}
	if len(c.dirty) > 0 {
		return fmt.Errorf("%d of %d runs are not clean: seeds %v", len(c.dirty), c.done, c.dirty)
	}
	return nil
}

// inWorld does one run after the other in one world. A run that did not come to
// its faults, on a machine that is too busy, begins anew.
func (c *campaign) inWorld(ctx context.Context, name string, seeds <-chan uint64) error {
	w, err := newWorld(ctx, c.options, filepath.Join(c.state, name))
	if w != nil {
		defer w.close() //nolint:contextcheck // also when ctx has ended
	}
	if err != nil {
		return errors.New(stack.Explain(err))
	}
	earlier := receipts{}
	for seed := range seeds {
		var r *run
		for range 3 {
			r = &run{journal: newJournal(), world: w, seed: seed, chaos: c.chaos, random: source(seed, 0)}
			if err = r.do(ctx, earlier); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("seed %d: %s", seed, stack.Explain(err))
		}
		c.add(r)
	}
	return nil
}

// add counts a run, and prints the journal of one that is not clean.
func (c *campaign) add(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	took := time.Since(r.journal.begin)
	c.figures.add(r, took)
	state := "clean"
	if !r.clean() {
		state = "NOT CLEAN"
		c.dirty = append(c.dirty, r.seed)
		path := filepath.Join(c.state, fmt.Sprintf("seed-%d.journal", r.seed))
		_ = os.WriteFile(path, []byte(r.String()), 0o600) // it is printed, too
		_ = os.CopyFS(fmt.Sprintf("%s.logs.%d", path, time.Now().Unix()), os.DirFS(r.Path("logs")))
		fmt.Printf("%s\n  again: make chaos RUNS=1 SEED=%d\n  journal, also in %s:\n%s", strings.Join(r.violations, "\n"), r.seed, path, r)
	} else if c.verbose {
		fmt.Print(r)
	}
	fmt.Printf("run %d/%d, seed %d: %s, %.1f s: %s\n", c.done, c.runs, r.seed, state, took.Seconds(), strings.Join(r.names, ", "))
}

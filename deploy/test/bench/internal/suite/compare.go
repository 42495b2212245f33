package suite

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pforte/pforte/deploy/test/bench/internal/load"
	"github.com/pforte/pforte/deploy/test/bench/internal/machine"
)

// cell is one server asked one thing.
type cell struct {
	name string
	// pids are the processes whose work it is.
	pids []int
	// prepare gives the job of one turn.
	prepare func(ctx context.Context, duration time.Duration) (load.Job, error)
}

// rounds are what a cell's turns gave.
type rounds struct {
	// rate is in answers a second, cost in microseconds of the server's
	// processor time for an answer, p50 and p99 in milliseconds.
	rate, cost, p50, p99 samples
	// client is the share of one core that asking took.
	client samples
}

// turns is how many short turns those who are compared have for one round of
// other figures: the machine's pace changes within seconds, and by more than what
// some of them differ.
const turns = 4

// turn is how long one turn lasts.
func turn(round time.Duration) time.Duration { return round / 2 }

// compare asks all cells in turn, again and again.
func (s *Suite) compare(ctx context.Context, round time.Duration, cells ...cell) ([]rounds, error) {
	for _, c := range cells { // what is compiled and connected late, is now
		if _, err := c.run(ctx, round); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	results := make([]rounds, len(cells))
	for n := range turns * s.Rounds {
		for i, c := range cells {
			m, err := c.run(ctx, turn(round))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			results[i].add(m)
			s.progress("%s, turn %d: %s/s, %s µs, p99 %s ms; asking took %.0f %% of a core", c.name, n+1, figure(m.rate), figure(m.cost), figure(m.p99), 100*m.client)
		}
	}
	return results, nil
}

// one is what a turn gave.
type one struct{ rate, cost, p50, p99, client float64 }

func (r *rounds) add(m one) {
	r.rate, r.cost, r.client = append(r.rate, m.rate), append(r.cost, m.cost), append(r.client, m.client)
	r.p50, r.p99 = append(r.p50, m.p50), append(r.p99, m.p99)
}

func (c cell) run(ctx context.Context, duration time.Duration) (one, error) {
	job, err := c.prepare(ctx, duration)
	if err != nil {
		return one{}, err
	}
	before, err := used(c.pids...)
	if err != nil {
		return one{}, err
	}
	asking, err := used(os.Getpid())
	if err != nil {
		return one{}, err
	}
	result, err := load.Run(ctx, job)
	if err != nil {
		return one{}, err
	}
	after, err := used(c.pids...)
	if err != nil {
		return one{}, err
	}
	asked, err := used(os.Getpid())
	if err != nil {
		return one{}, err
	}
	if result.Answers == 0 {
		return one{}, fmt.Errorf("no answer within %v", duration)
	}
	return one{
		rate: result.Rate, cost: micro(after-before) / float64(result.Answers), client: (asked - asking).Seconds() / result.Took.Seconds(),
		p50: milli(result.Quantile(.5)), p99: milli(result.Quantile(.99)),
	}, nil
}

func used(pids ...int) (total time.Duration, err error) {
	for _, pid := range pids {
		cpu, err := machine.CPU(pid)
		if err != nil {
			return 0, err
		}
		total += cpu
	}
	return total, nil
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package suite

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// withIdeal compares logins and measures, in the same rounds, what the machine
// could do if a login were nothing but bcrypt: all cores at once, because a
// machine may not run all of them as fast as one alone.
func (w *world) withIdeal(ctx context.Context, cells []cell) (r []rounds, ideal samples, err error) {
	hash, err := bcrypt.GenerateFromPassword([]byte("a password"), 12)
	if err != nil {
		return nil, nil, fmt.Errorf("bcrypt: %w", err)
	}
	duration := 2 * w.suite.For // for some more logins
	r = make([]rounds, len(cells))
	for range w.suite.Rounds {
		ideal = append(ideal, bcryptRate(hash, duration))
		for i, c := range cells {
			m, err := c.run(ctx, duration)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", c.name, err)
			}
			r[i].add(m)
			w.suite.progress("%s: %s/s of %s", c.name, figure(m.rate), figure(ideal[len(ideal)-1]))
		}
	}
	return r, ideal, nil
}

// bcryptRate is how many comparisons all cores do in a second, about.
func bcryptRate(hash []byte, duration time.Duration) float64 {
	var all sync.WaitGroup
	var mu sync.Mutex
	rate := 0.0
	for range runtime.NumCPU() {
		all.Go(func() {
			began, n := time.Now(), 0
			for time.Since(began) < duration {
				_ = bcrypt.CompareHashAndPassword(hash, []byte("a password"))
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			rate += float64(n) / time.Since(began).Seconds()
		})
	}
	all.Wait()
	return rate
}

func scaled(s samples, by float64) samples {
	out := make(samples, len(s))
	for i, f := range s {
		out[i] = f * by
	}
	return out
}

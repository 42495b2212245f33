package payment

import (
	"sync"
	"time"
)

// attempts counts attempts that cost us or the facilitator something and are
// not paid, by payer and by client address, in fixed windows. It lives in the
// memory of one process: each replica allows the whole number.
type attempts struct {
	window time.Duration
	now    func() time.Time

	mu     sync.Mutex
	index  int64
	counts map[string]int
}

// maxCounted bounds the memory of a window. Whoever comes after that many
// shares one count.
const maxCounted = 100_000

func newAttempts(window time.Duration, now func() time.Time) *attempts {
	return &attempts{window: window, now: now, counts: map[string]int{}}
}

// spend takes one attempt of who, of limit in a window, in one step. The refund
// that it gives takes it back; it does nothing once the window is over.
func (a *attempts) spend(who string, limit int) (refund func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	index := a.roll()
	if _, known := a.counts[who]; !known && len(a.counts) >= maxCounted {
		who = ""
	}
	if a.counts[who] >= limit {
		next := time.Unix(0, (index+1)*int64(a.window))
		return nil, &TooManyError{After: next.Sub(a.now())}
	}
	a.counts[who]++
	return func() { a.give(who, index) }, nil
}

func (a *attempts) give(who string, index int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.roll() == index {
		a.counts[who]--
	}
}

// roll begins a new window when it is time, and gives the current one's number.
func (a *attempts) roll() int64 {
	index := a.now().UnixNano() / int64(a.window)
	if index != a.index {
		a.index = index
		clear(a.counts)
	}
	return index
}

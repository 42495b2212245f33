package app

import (
	"net/http"
	"sync"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestPurchase_AHundredCopiesOverTwoProcessesAreOne(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, database string) {
		t.Parallel()
		w := newWorld(t, database)
		one, _ := w.spawn("never")
		two, _ := w.spawn("never")
		paid := w.pay("1")
		var mu sync.Mutex
		answers := map[string]int{}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				status, body := w.post([]string{one, two}[i%2], paid)
				mu.Lock()
				defer mu.Unlock()
				answers[body]++
				if status != http.StatusOK {
					t.Errorf("got %d: %s", status, body)
				}
			})
		}
		all.Wait()
		if len(answers) != 1 {
			t.Errorf("%d different answers were given", len(answers))
		}
		w.wantTransfers(1)
		if w.sim.Verifies != 1 || len(w.sim.Bodies) != 1 {
			t.Errorf("the facilitator checked %d times and settled %d times", w.sim.Verifies, len(w.sim.Bodies))
		}
	})
}

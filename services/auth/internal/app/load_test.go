package app_test

import (
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/password"
)

func TestAnAuthenticatedRequestIsOneRoundTripToRedis(t *testing.T) {
	w := newWire(t, redistest.Start(t))
	p := start(t, settings(t, w.addr()))
	b := p.loggedIn(adminName, adminPass)
	for path, want := range map[string]int{"/internal/forward-auth?role=admin": http.StatusOK, prefix + "/me": http.StatusOK, prefix + "/users": http.StatusOK} {
		request := func() { b.want(want, http.MethodGet, path, "", "X-Forwarded-Method", "DELETE", "X-Forwarded-Uri", "/") }
		request() // Redis may not know the script yet
		before := w.messages.Load()
		for range 10 {
			request()
		}
		if got := w.messages.Load() - before; got != 10 {
			t.Errorf("%s: 10 requests took %d messages to Redis", path, got)
		}
	}
}

func TestAnAuthenticatedRequestIsOneRoundTripToPostgres(t *testing.T) {
	url := sqldbtest.Postgres(t)
	if url == "" {
		t.Skip("Postgres is not installed")
	}
	before, rest, _ := strings.Cut(url, "@")
	address, database, _ := strings.Cut(rest, "/")
	w := newWire(t, address)
	p := start(t, settings(t, redistest.Start(t), "DATABASE_URL", before+"@"+w.addr()+"/"+database))
	b := p.loggedIn(adminName, adminPass)
	request := func() { b.want(http.StatusOK, http.MethodGet, prefix+"/me", "") }
	request() // Postgres may not know the statement yet
	least := int64(math.MaxInt64)
	for range 10 { // of which the sweep of revocations may meet one
		sent := w.messages.Load()
		request()
		least = min(least, w.messages.Load()-sent)
	}
	if least != 1 {
		t.Errorf("a request took %d messages to Postgres", least)
	}
}

func TestAnAnonymousRequestDoesNotReachRedis(t *testing.T) {
	w := newWire(t, redistest.Start(t))
	p := start(t, settings(t, w.addr()))
	before := w.messages.Load()
	for range 10 {
		p.browser().want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
		p.browser().want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "", "Cookie", "svc.sid=forged")
	}
	if got := w.messages.Load() - before; got != 0 {
		t.Errorf("%d messages to Redis", got)
	}
}

func TestAStormOfLoginsDoesNotSlowOthersDownNorFillMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("computes passwords of the contract's cost for some seconds")
	}
	p := startWith(t, settings(t, redistest.Start(t), "RATE_LIMIT_MAX_ATTEMPTS", "1000000", "LOG_LEVEL", "warn"), password.Options{Cost: stormCost})
	b := p.loggedIn(adminName, adminPass)
	before := heap()
	var storm sync.WaitGroup
	statuses := make([]int, 200)
	storm.Go(func() {
		atOnce(len(statuses), func(i int) {
			statuses[i], _ = p.browser().steadily(http.MethodPost, prefix+"/login", `{"username":"anna","password":"wrong"}`)
		})
	})
	over := make(chan struct{})
	go func() { storm.Wait(); close(over) }()
	took := meanwhile(over, func() { b.want(http.StatusOK, http.MethodGet, prefix+"/me", "") })
	got := count(statuses)
	if got[http.StatusUnauthorized] == 0 || got[http.StatusServiceUnavailable] == 0 || got[http.StatusUnauthorized]+got[http.StatusServiceUnavailable] != len(statuses) {
		t.Errorf("logins were answered %v", got)
	}
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	t.Logf("%d × GET /me during %v: median %s, worst %s, heap +%d KB", len(took), got, median, worst, (heap()-before)/1024)
	if median > 500*time.Millisecond {
		t.Errorf("GET /me took %s (median of %d) during a storm of logins", median, len(took))
	}
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// meanwhile does something again and again until over, and returns how long each
// took.
func meanwhile(over <-chan struct{}, do func()) []time.Duration {
	var took []time.Duration
	for {
		started := time.Now()
		do()
		took = append(took, time.Since(started))
		select {
		case <-over:
			return took
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func count(statuses []int) map[int]int {
	counts := map[int]int{}
	for _, status := range statuses {
		counts[status]++
	}
	return counts
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

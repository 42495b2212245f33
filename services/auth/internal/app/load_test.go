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
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/token"
)

func TestLoad_ARequestIsOneRoundTripToRedis(t *testing.T) {
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

func TestLoad_ARequestIsOneRoundTripToPostgres(t *testing.T) {
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

// TestLoad_AGuardedRequestIsOneRoundTripToEachStore takes the least of several
// requests: one may meet the sweep of revocations, the applications' being read again or
// the record of a token's use.
func TestLoad_AGuardedRequestIsOneRoundTripToEachStore(t *testing.T) {
	database := sqldbtest.Postgres(t)
	if database == "" {
		t.Skip("Postgres is not installed")
	}
	before, rest, _ := strings.Cut(database, "@")
	address, name, _ := strings.Cut(rest, "/")
	sql, redis := newWire(t, address), newWire(t, redistest.Start(t))
	p := start(t, settings(t, redis.addr(), "DATABASE_URL", before+"@"+sql.addr()+"/"+name, "TRUSTED_PROXIES", "127.0.0.1"))
	db, err := sqldb.Open(t.Context(), database, sqlstore.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	store, text := sqlstore.New(db, time.Now, nil), token.New()
	err = store.Applications.CreateApplication(t.Context(), application.Application{Slug: "dav", Name: "dav", URL: "/dav/", Rule: application.Login, Tokens: true, Color: "#000"}, application.Icon{}, session.Session{})
	if err == nil {
		_, err = store.Tokens.CreateToken(t.Context(), token.Token{UserID: 1, Name: "x", Shown: "x", Applications: []string{"dav"}}, secrets.Hash(text), session.Session{})
	}
	if err != nil {
		t.Fatal(err)
	}
	anna, device := p.loggedIn(adminName, adminPass), p.browser()
	for what, c := range map[string]struct {
		by                 *browser
		app, token         string
		status, redis, sql int
	}{
		"of a session":              {anna, "dav", "", http.StatusOK, 1, 1},
		"with an app token":         {device, "dav", text, http.StatusOK, 0, 1},
		"of nobody":                 {device, "dav", "", http.StatusUnauthorized, 0, 0},
		"to an unknown application": {anna, "nothing", "", http.StatusForbidden, 0, 0},
	} {
		headers := []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/dav/", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "home.example"}
		if c.token != "" {
			headers = append(headers, "X-Pforte-Token", c.token)
		}
		leastRedis, leastSQL := int64(math.MaxInt64), int64(math.MaxInt64)
		for range 10 {
			redisBefore, sqlBefore := redis.messages.Load(), sql.messages.Load()
			c.by.want(c.status, http.MethodGet, "/internal/forward-auth?app="+c.app, "", headers...)
			leastRedis, leastSQL = min(leastRedis, redis.messages.Load()-redisBefore), min(leastSQL, sql.messages.Load()-sqlBefore)
		}
		if leastRedis != int64(c.redis) || leastSQL != int64(c.sql) {
			t.Errorf("%s: %d messages to Redis, want %d, %d to Postgres, want %d", what, leastRedis, c.redis, leastSQL, c.sql)
		}
	}
}

func TestLoad_AnAnonymousRequestDoesNotReachRedis(t *testing.T) {
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

func TestLoad_AStormOfLoginsSlowsNoOthersDown(t *testing.T) {
	p := startWith(t, settings(t, redistest.Start(t), "RATE_LIMIT_MAX_ATTEMPTS", "1000000", "LOG_LEVEL", "warn"), password.Options{Cost: 9})
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

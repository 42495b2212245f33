package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
)

// maxWait is how long a client may wait for an answer while a store is away: 5
// seconds, and what a test machine may need that is busy otherwise.
const maxWait = 5*time.Second + 1500*time.Millisecond

// answers requests everything that needs a store and returns the statuses by
// route. None may take longer than maxWait.
func (b *browser) answers(t *testing.T) map[string]int {
	t.Helper()
	got := map[string]int{}
	for name, request := range map[string]func() (int, string){
		"login": func() (int, string) { return b.p.browser().login(adminName, adminPass) },
		"me":    func() (int, string) { return b.request(http.MethodGet, prefix+"/me", "") },
		"users": func() (int, string) { return b.request(http.MethodGet, prefix+"/users", "") },
		"forward": func() (int, string) {
			return b.request(http.MethodGet, "/internal/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
		},
		"health": func() (int, string) { return b.request(http.MethodGet, "/health", "") },
		"livez":  func() (int, string) { return get(t, b.p.admin+"/livez") },
	} {
		started := time.Now()
		status, body := request()
		if took := time.Since(started); took > maxWait {
			t.Errorf("%s: %d after %s", name, status, took)
		}
		if status >= 400 && !strings.Contains(body, `"code":`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
		got[name] = status
	}
	return got
}

// recovers waits until health is well again.
func (b *browser) recovers(t *testing.T) {
	t.Helper()
	eventually(t, "it recovers", recovery, func() bool { s, _ := b.request(http.MethodGet, "/health", ""); return s == http.StatusOK })
}

func wantStatuses(t *testing.T, got map[string]int, want map[string]int) {
	t.Helper()
	for name, status := range want {
		if got[name] != status {
			t.Errorf("%s: got %d, want %d", name, got[name], status)
		}
	}
}

var (
	allWell  = map[string]int{"login": 200, "me": 200, "users": 200, "forward": 200, "health": 200, "livez": 200}
	noRedis  = map[string]int{"login": 500, "me": 500, "users": 500, "forward": 500, "health": 503, "livez": 200}
	noUsers  = map[string]int{"login": 500, "me": 500, "users": 500, "forward": 500, "health": 503, "livez": 200}
	recovery = 15 * time.Second
)

func TestOutage_WithoutRedisItFailsClosedAndRecovers(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	p := start(t, settings(t, server.Addr()))
	b := p.loggedIn(adminName, adminPass)
	for name, outage := range map[string]struct{ begin, end func() }{
		"hangs":      {server.Pause, server.Resume},
		"is killed":  {server.Kill, server.Restart},
		"is stopped": {func() { server.Restart(); server.Pause() }, server.Resume},
	} {
		t.Run(name, func(t *testing.T) {
			outage.begin()
			wantStatuses(t, b.answers(t), noRedis)
			outage.end()
			b.recovers(t)
			wantStatuses(t, b.answers(t), allWell)
		})
	}
}

// TestOutage_RedisStoppedInALoginHangsItNoLonger makes Redis hang after the
// attempt was taken: neither the session nor the attempt that is to be given
// back may add up to a hang of 5 seconds.
func TestOutage_RedisStoppedInALoginHangsItNoLonger(t *testing.T) {
	t.Parallel()
	w := newWire(t, redistest.Start(t))
	p := start(t, settings(t, w.addr()))
	p.loggedIn(adminName, adminPass)
	for after := range int64(4) {
		w.hangAt.Store(w.messages.Load() + after + 1)
		started := time.Now()
		status, body := p.browser().login(adminName, adminPass)
		if took := time.Since(started); status != http.StatusInternalServerError && after < 3 || took > maxWait {
			t.Errorf("after %d messages: %d after %s: %s", after, status, took, body)
		}
		w.hangAt.Store(0)
		w.mend()
		p.browser().recovers(t)
	}
}

func TestOutage_ASlowRedisDoesNotAddUpToAHang(t *testing.T) {
	t.Parallel()
	w := newWire(t, redistest.Start(t))
	p := start(t, settings(t, w.addr()))
	b := p.loggedIn(adminName, adminPass)
	for _, delay := range []time.Duration{400 * time.Millisecond, 900 * time.Millisecond, 1400 * time.Millisecond} {
		w.delay.Store(int64(delay))
		b.answers(t)
	}
	w.delay.Store(0)
	b.recovers(t)
	wantStatuses(t, b.answers(t), allWell)
}

func TestOutage_WithoutPostgresItFailsClosedAndRecovers(t *testing.T) {
	t.Parallel()
	url := sqldbtest.Postgres(t)
	if url == "" {
		t.Skip("Postgres is not installed")
	}
	before, rest, _ := strings.Cut(url, "@")
	address, database, _ := strings.Cut(rest, "/")
	w := newWire(t, address)
	p := start(t, settings(t, redistest.Start(t), "DATABASE_URL", before+"@"+w.addr()+"/"+database))
	b := p.loggedIn(adminName, adminPass)
	for name, outage := range map[string]func(){"hangs": w.hang, "is cut off": w.sever} {
		t.Run(name, func(t *testing.T) {
			outage()
			wantStatuses(t, b.answers(t), noUsers)
			w.mend()
			b.recovers(t)
			wantStatuses(t, b.answers(t), allWell)
		})
	}
}

func TestStart_WaitsForRedisAndLogsIt(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	server.Kill()
	p, ready := launch(t, settings(t, server.Addr()))
	eventually(t, "it logs what it waits for", 10*time.Second, func() bool { return strings.Contains(p.log.String(), "waiting for Redis") })
	server.Restart()
	<-ready
	p.loggedIn(adminName, adminPass)
	if !strings.Contains(p.log.String(), "reached Redis") {
		t.Error("it does not log that the waiting is over")
	}
}

func TestStart_WaitsForPostgresAndAnswers503(t *testing.T) {
	t.Parallel()
	url := sqldbtest.Postgres(t)
	if url == "" {
		t.Skip("Postgres is not installed")
	}
	before, rest, _ := strings.Cut(url, "@")
	address, database, _ := strings.Cut(rest, "/")
	w := newWire(t, address)
	w.sever()
	main, admin := freeAddr(t), freeAddr(t)
	p, ready := launch(t, settings(t, redistest.Start(t), "DATABASE_URL", before+"@"+w.addr()+"/"+database, "ADDR", main, "ADMIN_ADDR", admin))
	eventually(t, "it logs what it waits for", 10*time.Second, func() bool { return strings.Contains(p.log.String(), "waiting for the database") })
	if status, body := get(t, "http://"+main+"/health"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":503`) {
		t.Errorf("health: %d %s", status, body)
	}
	if status, _ := get(t, "http://"+admin+"/livez"); status != http.StatusOK {
		t.Errorf("livez: %d", status)
	}
	w.mend()
	<-ready
	p.loggedIn(adminName, adminPass)
}

func TestStart_AStopWhileItWaitsIsFollowed(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	server.Kill()
	p, _ := launch(t, settings(t, server.Addr()))
	eventually(t, "it waits", 10*time.Second, func() bool { return strings.Contains(p.log.String(), "waiting for Redis") })
	if code := p.exit(); code != 0 {
		t.Errorf("it ended with %d: %s", code, p.log)
	}
}

// TestOutage_ARevocationOutlivesTheProcess kills Redis between the change and what
// follows from it, then the program. The user's row refuses the session at once; the store follows.
func TestOutage_ARevocationOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	environment := settings(t, server.Addr())
	first := start(t, environment)
	b := first.loggedIn(adminName, adminPass)
	server.Pause()
	if code, out := operate(t, environment, "yet another password\n", "user", "passwd", adminName); code != 1 || !strings.Contains(out, "session revocation pending") {
		t.Errorf("the command returned %d %s", code, out)
	}
	first.exit()
	server.Resume()
	db, err := sqldb.Open(t.Context(), environment["DATABASE_URL"], sqlstore.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	pending := func() int {
		list, err := sqlstore.New(db, time.Now, nil).Users.PendingRevocations(t.Context(), time.Now().Add(time.Hour), 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := pending(); n != 1 {
		t.Fatalf("%d revocations are pending", n)
	}
	b.p = start(t, environment)
	eventually(t, "the session is over", recovery, func() bool { s, _ := b.request(http.MethodGet, prefix+"/me", ""); return s == http.StatusUnauthorized })
	eventually(t, "the store has ended it", recovery, func() bool { return pending() == 0 })
}

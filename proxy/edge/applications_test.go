package edge

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
)

func hostsOf(a *Applications) []string { return slices.Sorted(maps.Keys(a.now.Load().hosts)) }

// listAuth is auth as far as it answers for the list.
type listAuth struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	answer string
	asked  []question
}

func standListAuth(t *testing.T, answer string) *listAuth {
	t.Helper()
	a := &listAuth{status: http.StatusOK, answer: answer}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *listAuth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q question
	b, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || r.URL.Path != "/internal/routes" || json.Unmarshal(b, &q) != nil ||
		r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "no question", http.StatusNotFound)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, q)
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.answer)
}

func (a *listAuth) addr() string { return strings.TrimPrefix(a.URL, "http://") }

func (a *listAuth) set(status int, answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.answer = status, answer
}

// await waits for a question of which f reports true.
func (a *listAuth) await(t *testing.T, what string, f func(question) bool) question {
	t.Helper()
	for range 500 {
		a.mu.Lock()
		all := slices.Clone(a.asked)
		a.asked = nil
		a.mu.Unlock()
		if i := slices.IndexFunc(all, f); i >= 0 {
			return all[i]
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("it was never asked with " + what)
	return question{}
}

// provisionApplications prepares the Caddy app alone.
func provisionApplications(t *testing.T, a *Applications) *Applications {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	a.Mode = reachLAN
	if err := a.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	a.ports = func() []uint16 { return nil }
	return a
}

// startApplications runs the Caddy app alone.
func startApplications(t *testing.T, a *Applications) *Applications {
	t.Helper()
	a.every = 20 * time.Millisecond
	if err := provisionApplications(t, a).Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop() })
	return a
}

const twoApps = `{"version":1,"etag":"\"2\"","household":"Familie Kern","apps":[
	{"slug":"notes","name":"Notizen","host":"notes.example.org","to":"http://10.0.0.1:80"},
	{"slug":"nas","host":"nas.example.org","to":"http://127.0.0.1:80"},{"slug":"bad","host":"*","to":"http://10.0.0.1:80"}]}`

func TestApplications_AreThoseOfTheLastGoodAnswer(t *testing.T) {
	t.Parallel()
	auth := standListAuth(t, twoApps)
	file := filepath.Join(t.TempDir(), "data", "apps.json")
	a := startApplications(t, &Applications{Auth: []string{"127.0.0.1:1", auth.addr()}, File: file, To: []string{"127.0.0.1:7"}})
	q := auth.await(t, "the list that it has", func(q question) bool { return q.Have == `"2"` })
	if q.Apps != "lan" || len(q.Proxy) < 8 || q.Skipped["nas"] != "address" || q.Skipped["bad"] != "form" || len(q.Skipped) != 2 || !slices.Equal(q.Named, []string{"127.0.0.1:7"}) {
		t.Errorf("it was told %+v", q)
	}
	here := func(when string) {
		t.Helper()
		app, ok := a.Host("NOTES.example.org")
		_, refused := a.Host("nas.example.org")
		if !ok || app.Slug != "notes" || app.Name != "Notizen" || refused || a.Household() != "Familie Kern" || !slices.Equal(hostsOf(a), []string{"notes.example.org"}) {
			t.Errorf("%s: %+v, %t, %q, %q", when, app, refused, a.Household(), hostsOf(a))
		}
	}
	here("at first")
	for answer, status := range map[string]int{
		"": 500, "<html>": 200, "null": 200, `{"version":1}`: 200, `{"version":2,"apps":[]}`: 200, "{}": 204,
		`{"version":1,"etag":"\"2\"","apps":[]}`: 200, `{"version":1,"etag":"\"3\"","apps":[]}`: 503,
	} {
		auth.set(status, answer)
		auth.await(t, answer, func(question) bool { return true })
		auth.await(t, answer, func(question) bool { return true })
		here(answer)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	_ = a.Stop()
	auth.Close()
	a = startApplications(t, &Applications{Auth: []string{auth.addr()}, File: file})
	here("from the file")
}

// awayAuth is auth that has a list, or is away in one way after another.
type awayAuth struct {
	list         atomic.Value // string, empty while it is away
	asked, lines atomic.Int64
}

func (a *awayAuth) RoundTrip(r *http.Request) (*http.Response, error) {
	n, list := a.asked.Add(1), a.list.Load().(string)
	answer := func(status int, body string) *http.Response {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}
	}
	switch {
	case list != "":
		return answer(http.StatusOK, list), nil
	case n%4 == 0:
		return nil, errors.New("connection refused")
	case n%4 == 1:
		return answer(http.StatusServiceUnavailable, ""), nil
	case n%4 == 2:
		return answer(http.StatusOK, "<html>"), nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Write counts the lines of a log.
func (a *awayAuth) Write(b []byte) (int, error) {
	a.lines.Add(1)
	return len(b), nil
}

func TestApplications_StayThroughADayWithoutAuthAndARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "apps.json")
	synctest.Test(t, func(t *testing.T) {
		auth := new(awayAuth)
		auth.list.Store(twoApps)
		start := func() *Applications {
			a := provisionApplications(t, &Applications{Auth: []string{"127.0.0.1:1"}, File: file, every: 5 * time.Second})
			a.client.Transport, a.log = auth, slog.New(slog.NewTextHandler(auth, nil))
			if err := a.Start(); err != nil {
				t.Fatal(err)
			}
			return a
		}
		a := start()
		for _, day := range []string{"in the first day", "in the day after a restart"} {
			time.Sleep(time.Second)
			auth.list.Store("")
			auth.asked.Store(0)
			auth.lines.Store(0)
			time.Sleep(24 * time.Hour)
			kept, err := os.ReadFile(file)
			if hosts := hostsOf(a); err != nil || string(kept) != twoApps || !slices.Equal(hosts, []string{"notes.example.org"}) {
				t.Errorf("%s: %q are listed, the file has %s, %v", day, hosts, kept, err)
			}
			if asked, lines := auth.asked.Load(), auth.lines.Load(); asked < 24*60*60/10 || lines > 1 {
				t.Errorf("%s: auth was asked %d times, the log has %d lines", day, asked, lines)
			}
			_ = a.Stop()
			a = start()
		}
		auth.list.Store(`{"version":1,"etag":"\"3\"","apps":[{"slug":"cal","host":"cal.example.org","to":"http://10.0.0.1:80"}]}`)
		time.Sleep(10 * time.Second)
		if hosts := hostsOf(a); !slices.Equal(hosts, []string{"cal.example.org"}) {
			t.Errorf("auth is back, and %q are listed", hosts)
		}
		_ = a.Stop()
	})
}

func TestApplications_AnEmptyListIsOne(t *testing.T) {
	t.Parallel()
	auth := standListAuth(t, twoApps)
	a := startApplications(t, &Applications{Auth: []string{auth.addr()}, File: filepath.Join(t.TempDir(), "apps.json")})
	auth.set(200, `{"version":1,"etag":"\"3\"","apps":[]}`)
	auth.await(t, "the empty list", func(q question) bool { return q.Have == `"3"` && len(q.Skipped) == 0 })
	if hosts := hostsOf(a); len(hosts) != 0 {
		t.Errorf("%q are listed", hosts)
	}
}

func TestApplications_AFileThatIsBrokenIsNone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "apps.json")
	if err := os.WriteFile(file, []byte(`{"version":1,"apps":[`), 0o600); err != nil {
		t.Fatal(err)
	}
	auth := standListAuth(t, twoApps)
	a := startApplications(t, &Applications{Auth: []string{auth.addr()}, File: file})
	auth.await(t, "the list", func(q question) bool { return q.Have == `"2"` })
	if _, ok := a.Host("notes.example.org"); !ok {
		t.Error("the answer was not taken")
	}
	for range 100 { // it is written after it is served
		if b, err := os.ReadFile(file); err == nil && string(b) == twoApps {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("the file is not replaced")
}

// The answer has a status and a time, and nothing of what the address said.
func TestProbe_TellsTheStatusAlone(t *testing.T) {
	t.Parallel()
	var asked sync.Map
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method+" "+r.URL.Path, r.Header.Clone())
		w.Header().Set("Location", "/secret")
		w.Header().Set("X-Secret", "secret")
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "secret")
	}))
	t.Cleanup(app.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	named := strings.TrimPrefix(app.URL, "http://")
	https := strings.TrimPrefix(secure.URL, "https://")
	closed := httptest.NewServer(nil)
	closed.Close()
	gone := strings.TrimPrefix(closed.URL, "http://")
	auth := standListAuth(t, `{"version":1,"etag":"\"1\"","apps":[],"probe":[{"id":"a","to":"`+app.URL+`"},{"id":"b","to":"http://127.0.0.1:9"},
		{"id":"c","to":"http://no-such-name.invalid:80"},{"id":"d","to":"`+secure.URL+`"},{"id":"e","to":"`+closed.URL+`"},{"id":"f","to":"http://x/y"},
		{"id":"g","to":"http://`+https+`"},{"id":"h","to":"https://`+named+`"},{"id":"bad id","to":"`+app.URL+`"}]}`)
	startApplications(t, &Applications{Auth: []string{auth.addr()}, File: filepath.Join(t.TempDir(), "apps.json"), To: []string{named, https, gone}})
	got := map[string]probeAnswer{}
	for len(got) < 8 {
		q := auth.await(t, "all answers", func(q question) bool { return len(q.Probed) > 0 })
		for _, p := range q.Probed {
			got[p.ID] = p
		}
	}
	for id, want := range map[string]probeAnswer{
		"a": {Status: 302}, "b": {Error: "address"}, "c": {Error: "name"}, "d": {Status: 404, Pin: pinOf(*tlsState(t, secure))},
		"e": {Error: "refused"}, "f": {Error: "address"}, "g": {Status: 400}, "h": {Error: "tls"},
	} {
		answer := got[id]
		if answer.Status != want.Status || answer.Error != want.Error || answer.Pin != want.Pin || answer.MS < 0 {
			t.Errorf("%s: %+v, want %+v", id, answer, want)
		}
	}
	count := 0
	asked.Range(func(what, header any) bool {
		count++
		if h := header.(http.Header); what != "GET /" || h.Get("Cookie") != "" || h.Get("Authorization") != "" {
			t.Errorf("the address was asked %s with %s", what, h)
		}
		return true
	})
	if b, _ := json.Marshal(got); count != 1 || strings.Contains(string(b), "secret") {
		t.Errorf("%d kinds of requests, %s", count, b)
	}
}

// tlsState is the state of a connection to a server.
func tlsState(t *testing.T, server *httptest.Server) *tls.ConnectionState {
	t.Helper()
	res, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.TLS
}

// A page names the application to which the request went: upper and lower case of a path are the same, as are the ways
// to write a character.
func TestApplications_ANameIsFoundAsTheRouteIs(t *testing.T) {
	t.Parallel()
	apps := []App{{Name: "Fotos", Path: "/Photos/"}, {Name: "Album", Path: "/photos/album/"}}
	a := &Applications{}
	a.now.Store(&listing{appList: &appList{apps: apps}})
	for path, want := range map[string]string{
		"/Photos/x": "Fotos", "/photos/x": "Fotos", "/PHOTOS/Album/": "Album",
		"/%70hotos/x": "Fotos", "/photosx": "", "/": "",
	} {
		if got := a.nameAt(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

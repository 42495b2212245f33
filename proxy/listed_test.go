package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// listingAuth is a household's auth with the list of applications.
type listingAuth struct {
	*household
	version int
	apps    []map[string]any
	probe   []map[string]string
	// asked are the questions of proxies.
	asked []map[string]any
	// any is whether every slug is an application.
	any bool
}

// entry is one of the list: an application with a host.
func entry(slug, host, to string) map[string]any {
	return map[string]any{"slug": slug, "name": strings.ToUpper(slug), "host": host, "to": "http://" + to}
}

// entryBelow is one at a path.
func entryBelow(slug, path, to string, strip bool) map[string]any {
	return map[string]any{"slug": slug, "name": slug, "path": path, "to": "http://" + to, "strip": strip}
}

func standListing(t *testing.T, apps ...map[string]any) *listingAuth {
	t.Helper()
	a := &listingAuth{household: &household{}}
	a.set(apps...)
	a.upstream = stand(t, "auth", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/internal/routes":
			a.routes(w, r)
		case "/internal/forward-auth":
			a.mu.Lock()
			if a.any {
				r.URL.RawQuery = "app=photos"
			}
			a.mu.Unlock()
			a.forwardAuth(w, r)
		default:
			_, _ = fmt.Fprint(w, "auth")
		}
	})
	return a
}

// set replaces the list.
func (a *listingAuth) set(apps ...map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.apps = append([]map[string]any{}, apps...)
}

func (a *listingAuth) routes(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&q)
	a.asked = append(a.asked, q)
	etag := fmt.Sprintf(`"%d"`, a.version)
	if q["have"] == etag {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"version": 1, "etag": etag, "household": "Familie Kern", "apps": a.apps, "probe": a.probe})
}

// openListed starts a proxy with a list, whose applications are at addresses of this machine, and waits until it has one:
// auth's, or the last good one.
func openListed(t *testing.T, a *listingAuth, settings map[string]string, at ...*upstream) *server {
	t.Helper()
	var to []string
	for _, u := range at {
		to = append(to, u.addr())
	}
	all := map[string]string{
		"AUTH_UPSTREAM": a.addr(), "APPS": "lan", "APPS_TO": strings.Join(to, ","), "APPS_FILE": filepath.Join(t.TempDir(), "apps.json"),
	}
	for name, value := range settings {
		all[name] = value
	}
	d := open(t, all)
	d.awaitList(t)
	return d
}

// awaitList waits for a list. A proxy that starts serves without one when auth's answer takes more than a second.
func (d *server) awaitList(t *testing.T) {
	t.Helper()
	for begun := time.Now(); !strings.Contains(d.log.String(), `"msg":"applications"`); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("the proxy has no list:\n%s", d.log)
		}
	}
}

// member are the headers of a request of a user to a host.
func member(host string) []string { return []string{"Cookie", "svc.app=member", "Host", host} }

// await sends requests until the answer is as wanted, and returns how long that took.
func (d *server) await(t *testing.T, path, want string, headers ...string) time.Duration {
	t.Helper()
	var got answer
	begun := time.Now()
	for time.Since(begun) < 20*time.Second {
		got = d.request(t, "GET", path, "", headers...)
		if fmt.Sprintf("%d %s", got.StatusCode, got.body) == want {
			return time.Since(begun)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s: after 20 s it is %d %s, want %s", path, got.StatusCode, got.body, want)
	return 0
}

const (
	nothingHere = `404 {"error":"Nicht gefunden.","code":404}`
	photosHost  = "photos.example.org"
)

// Nothing is restarted, and nothing reloaded.
func TestListed_AppearsMovesAndGoesOnTwoProxiesWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	first, second := stand(t, "first", nil), stand(t, "second", nil)
	auth := standListing(t)
	site := map[string]string{"SITE_ADDRESS": "http://home.example.org:PORT"}
	proxies := []*server{openListed(t, auth, site, first, second), openListed(t, auth, site, first, second)}
	steps := []struct {
		want string
		apps []map[string]any
	}{
		{"200 first", []map[string]any{entry("photos", photosHost, first.addr())}},
		{"200 second", []map[string]any{entry("photos", photosHost, second.addr())}},
		{nothingHere, nil},
	}
	for round := 1; ; round++ { // a busy machine may be slow once, and again
		var late []string
		for _, step := range steps {
			auth.set(step.apps...)
			for _, d := range proxies {
				if took := d.await(t, "/album", step.want, member(photosHost)...); took > 2*time.Second {
					late = append(late, fmt.Sprintf("%s took %s", step.want, took))
				}
			}
		}
		if len(late) == 0 {
			return
		}
		if round == 3 {
			t.Fatal(late)
		}
	}
}

// A host of the list is the application's: there is no verifier, and no API but its own.
func TestListed_AHostHasItsApplicationAndThePagesOfAuthAlone(t *testing.T) {
	t.Parallel()
	app, own := stand(t, "app", nil), stand(t, "own", nil)
	folder := t.TempDir()
	file := "@photos {\n\thost " + photosHost + "\n\tpath /file/*\n}\nhandle @photos {\n\timport require_app photos\n\treverse_proxy " + own.addr() + "\n}\n"
	if err := os.WriteFile(filepath.Join(folder, "photos.caddy"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	auth := standListing(t, entry("photos", photosHost, app.addr()))
	for name, site := range map[string]string{"a site of one host": "http://home.example.org:PORT", "a site of all hosts": ":PORT"} {
		d := openListed(t, auth, map[string]string{"SITE_ADDRESS": site, "ROUTES_FOLDER": folder, "ROUTES": `handle /own/* {
			reverse_proxy ` + own.addr() + `
		}`}, app)
		for path, want := range map[string]string{
			"/": "200 app", "/v1/verify/chain-transaction": "200 app", "/api/v1/auth/me": "200 app", "/health": "200 app", "/pforte/": "200 auth", "/pforten": "200 app",
			"/.well-known/change-password": "200 auth", "/own/x": "200 own", "/file/x": "200 own", "/internal/routes": nothingHere, "/internal/forward-auth?app=photos": nothingHere,
		} {
			got := d.request(t, "GET", path, "", member(photosHost)...)
			if is := fmt.Sprintf("%d %s", got.StatusCode, got.body); is != want {
				t.Errorf("%s: %s: %s, want %s", name, path, is, want)
			}
		}
		if name == "a site of all hosts" {
			continue
		}
		for _, path := range []string{"/", "/pforte/x/../../v1/", "/v1/verify/chain-transaction", "/api/v1/auth/me", "/health", "/photos/"} {
			if got := d.request(t, "GET", path, "", member("other.example.org")...); got.StatusCode != 404 {
				t.Errorf("%s: another host's %s: %d %s", name, path, got.StatusCode, got.body)
			}
		}
		if got := d.request(t, "GET", "/api/v1/auth/me", "", member("home.example.org")...); got.body != "auth" {
			t.Errorf("%s: the API of the portal: %d %s", name, got.StatusCode, got.body)
		}
	}
}

// As by handle_path and header_up.
func TestListed_AnApplicationBelowAPathGetsWhatTheOperatorsLinesWouldSend(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	kept := entryBelow("photos", "/kept/", app.addr(), false)
	stripped := entryBelow("photos", "/photos/", app.addr(), true)
	stripped["user_header"] = "X-Webauth-User"
	for _, c := range []struct {
		entry                map[string]any
		path, arrives, named string
	}{
		{kept, "/kept/a?x=1", "/kept/a?x=1", ""},
		{stripped, "/photos/a%2Fb?x=1", "/a%2Fb?x=1", "anna"},
		{stripped, "/photos/", "/", "anna"},
		{stripped, "/PHOTOS/a", "/a", "anna"},
		{stripped, "/ph%6ftos/a", "/a", "anna"},
	} {
		auth := standListing(t, c.entry)
		d := openListed(t, auth, nil, app)
		got := d.request(t, "GET", c.path, "", append(member("home.example.org"), "X-Webauth-User", "root")...)
		arrived := app.last(t)
		if got.body != "app" || arrived.RequestURI != c.arrives || arrived.Header.Get("X-Webauth-User") != c.named || arrived.Header.Get("Remote-User") != "anna" {
			t.Errorf("%s: %d %s, arrived %s with %s", c.path, got.StatusCode, got.body, arrived.RequestURI, arrived.Header)
		}
		without := strings.TrimSuffix(c.entry["path"].(string), "/")
		if got := d.request(t, "GET", without+"?x=1", ""); got.StatusCode != 308 || got.Header.Get("Location") != without+"/?x=1" {
			t.Errorf("%s: %d to %s", without, got.StatusCode, got.Header.Get("Location"))
		}
	}
}

// The folder of a worker's script is its scope: one at the path without the slash would stand before the portal.
func TestListed_AWorkerStaysInItsFolder(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	auth := standListing(t, entryBelow("wiki", "/wiki/", app.addr(), false), entryBelow("kal", "/kal/", app.addr(), false))
	auth.any = true
	d := openListed(t, auth, nil, app)
	d.await(t, "/wiki/", "200 app", member("home.example.org")...)
	before := len(app.received())
	for _, path := range []string{"/w%C4%B0ki", "/%E2%84%AAal", "/wiki", "/WIKI", "/KAL"} { // i and k in lower case
		d.request(t, "GET", path, "", member("home.example.org")...)
	}
	for _, r := range app.received()[before:] {
		t.Errorf("%s arrived", r.RequestURI)
	}
}

// Who is not logged in is led to the login, and what auth does not know by that slug at that host is refused.
func TestListed_NoRequestPassesBeforeTheGuard(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	auth := standListing(t,
		entry("photos", photosHost, app.addr()), entry("notes", "notes.example.org", app.addr()), entryBelow("cal", "/cal/", app.addr(), true))
	d := openListed(t, auth, nil, app)
	d.await(t, "/", `401 {"error":"Nicht angemeldet.","code":401}`+"\n", "Host", photosHost)
	for _, path := range []string{"/", "/first", "/manifest.webmanifest", "/favicon.ico", "/api/x"} {
		for _, method := range []string{"GET", "POST", "OPTIONS", "PROPFIND"} {
			if got := d.request(t, method, path, "", "Host", photosHost); got.StatusCode != 401 {
				t.Errorf("%s %s: %d without a login", method, path, got.StatusCode)
			}
			if got := d.request(t, method, path, "", member("notes.example.org")...); got.StatusCode != 403 {
				t.Errorf("%s %s: %d at the host of another slug", method, path, got.StatusCode)
			}
			if got := d.request(t, method, "/cal"+path, "", member("home.example.org")...); got.StatusCode != 403 {
				t.Errorf("%s %s: %d below the path of another slug", method, path, got.StatusCode)
			}
		}
	}
	if got := d.request(t, "GET", "/", "", "Host", photosHost, "Sec-Fetch-Mode", "navigate"); got.StatusCode != 303 {
		t.Errorf("a page without a login: %d", got.StatusCode)
	}
	if all := app.received(); len(all) != 0 {
		t.Errorf("%d requests passed, the first to %s", len(all), all[0].RequestURI)
	}
}

func TestListed_ForgedHeadersAndOurCookiesNeverArrive(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Set-Cookie", "svc.sid=stolen")
		w.Header().Add("Set-Cookie", "theme=light")
		w.Header().Set("Service-Worker-Allowed", "/")
	})
	auth := standListing(t, entry("photos", photosHost, app.addr()), entryBelow("photos2", "/x/", app.addr(), false))
	d := openListed(t, auth, nil, app)
	headers := append([]string{"Cookie", "svc.app=member; theme=dark; csrf-token=x; svc.sid=y", "Host", photosHost, "X-Pforte-Hop", "other"}, forged...)
	got := d.request(t, "GET", "/album?x=1", "", headers...)
	if lines := got.Header["Set-Cookie"]; got.StatusCode != 200 || len(lines) != 1 || lines[0] != "theme=light" || got.Header["Service-Worker-Allowed"] != nil {
		t.Errorf("%d with %s", got.StatusCode, got.Header)
	}
	wantAnna(t, app.last(t).Header, photosHost)
}

// The corpus of paths_test.go: at a host of the list, no spelling passes without a login, reaches what is internal, or is
// read differently; below a path neither.
func TestListed_NoSpellingPassesTheGuard(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	auth := standListing(t, entry("photos", "other", app.addr()), entryBelow("cal", "/deep/cal/", app.addr(), true))
	d := openListed(t, auth, map[string]string{"SITE_ADDRESS": ":PORT"}, app)
	targets := slices.Concat(spellings("/deep/cal", "x"), spellings("/internal/routes", "x"), spellings("/pforte/login", "x"))
	before := len(auth.received())
	for _, target := range targets {
		for _, host := range []string{"other", "home.example.org"} {
			text := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host)
			d.raw(t, text)
			if len(app.received()) > 0 {
				t.Fatalf("%q at %s passes without a login", target, host)
			}
		}
	}
	for _, r := range auth.received()[before:] {
		if p := r.URL.Path; strings.HasPrefix(p, "/internal/") && p != "/internal/routes" && p != "/internal/forward-auth" {
			t.Errorf("auth was asked for %s", p)
		}
	}
	for _, target := range targets { // with a login the host's application gets what passes as it was sent
		d.raw(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: other\r\nCookie: svc.app=member\r\nConnection: close\r\n\r\n", target))
	}
	for _, r := range app.received() {
		if !slices.Contains(targets, r.RequestURI) {
			t.Errorf("%q arrived", r.RequestURI)
		}
		for _, own := range []string{"/internal/", "/pforte/"} {
			if strings.HasPrefix(strings.ToLower(r.URL.Path), own) {
				t.Errorf("%q arrived at the application", r.RequestURI)
			}
		}
	}
	if len(app.received()) == 0 {
		t.Error("no spelling passed with a login")
	}
}

// A list that does not come, or is none, leaves the last one: also at a start while auth is away, after the proxy was
// killed. No request passes the guard meanwhile. When auth has no list, but logins, the applications are there.
func TestListed_ServesTheLastListWhileAuthIsAway(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	auth := standListing(t, entry("photos", photosHost, app.addr()))
	data := t.TempDir()
	settings := map[string]string{"APPS_FILE": "", "XDG_DATA_HOME": data, "SITE_ADDRESS": "http://home.example.org:PORT"}
	d := openListed(t, auth, settings, app)
	d.await(t, "/", "200 app", member(photosHost)...)
	file := filepath.Join(data, "caddy", "apps.json")
	for begun := time.Now(); time.Since(begun) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			break // it is written after it is served
		}
	}
	auth.Close()
	away := func(when string) {
		t.Helper()
		if got := d.request(t, "GET", "/", "", member(photosHost)...); got.StatusCode != 502 {
			t.Errorf("%s: %d %s", when, got.StatusCode, got.body)
		}
		if got := d.request(t, "GET", "/", "", member("other.example.org")...); got.StatusCode != 404 {
			t.Errorf("%s, another host: %d %s", when, got.StatusCode, got.body)
		}
	}
	away("auth is away")
	for begun := time.Now(); !strings.Contains(d.log.String(), "auth gives no list"); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("auth was not asked again:\n%s", d.log)
		}
	}
	away("auth was asked in vain")
	_ = d.process.Kill()
	<-d.ended
	d = openListed(t, auth, settings, app)
	away("after a start")
	if n := len(app.received()); n != 1 {
		t.Errorf("%d requests passed without auth", n-1)
	}
	again := standAt(t, auth.addr(), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/internal/routes" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		auth.upstream.Config.Handler.ServeHTTP(w, r)
	})
	defer again.Close()
	d.await(t, "/", "200 app", member(photosHost)...)
}

// What streams goes on while other applications change, and ends with its own.
func TestListed_ARemovalEndsWhatLasts(t *testing.T) {
	t.Parallel()
	app, other := lasting(t), stand(t, "other", nil)
	photos := entry("photos", photosHost, app.addr())
	auth := standListing(t, photos)
	d := openListed(t, auth, map[string]string{"GUARD_RECHECK": "5s"}, app, other)
	stream := func(text string) (net.Conn, *http.Response) {
		return d.openStream(t, strings.NewReplacer("Host: x", "Host: "+photosHost, "svc.sid=x", "svc.app=member").Replace(text))
	}
	socket, resp := stream(upgrade("/live", "x"))
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade is answered %d", resp.StatusCode)
	}
	_, events := stream(get("/events", "x"))
	_, download := stream(get("/download", "x"))
	wantEcho(t, "a WebSocket", socket)
	auth.set(photos, entry("notes", "notes.example.org", other.addr()))
	d.await(t, "/", `403 {"error":"unknown","code":403}`+"\n", member("notes.example.org")...)
	wantEcho(t, "a WebSocket after another application came", socket)
	moved := entry("photos", photosHost, other.addr())
	auth.set(moved)
	d.await(t, "/", "200 other", member(photosHost)...)
	time.Sleep(3 * time.Second)
	wantEcho(t, "a WebSocket after its application moved", socket)
	if _, err := io.CopyN(io.Discard, events.Body, 100); err != nil {
		t.Errorf("a stream of events after its application moved: %v", err)
	}
	auth.set()
	removed := time.Now()
	wantEnd(t, "a WebSocket", socket)
	wantEnd(t, "a stream of events", events.Body)
	wantEnd(t, "a download", download.Body)
	if took := time.Since(removed); took > 7*time.Second {
		t.Errorf("it took %s", took)
	}
}

// Uploads, downloads and many streams of one connection, as by the operator's lines.
func TestListed_BodiesOfAnyLengthPass(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			_, _ = fmt.Fprint(w, n)
			return
		}
		_, _ = io.CopyN(w, zeros{}, size)
	})
	d := openListed(t, standListing(t, entry("photos", photosHost, app.addr())), nil, app)
	if got := d.send(t, "POST", "/up", io.LimitReader(zeros{}, size), member(photosHost)...); got.body != fmt.Sprint(size) {
		t.Errorf("an upload: %d %s", got.StatusCode, got.body)
	}
	if got := d.request(t, "GET", "/down", "", member(photosHost)...); len(got.body) != size {
		t.Errorf("a download: %d with %d bytes", got.StatusCode, len(got.body))
	}
}

// One that does not answer, with as many requests as there may be, keeps out neither the others nor the login.
func TestListed_OneApplicationKeepsOutNoOther(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	slow := stand(t, "", func(http.ResponseWriter, *http.Request) { <-leave })
	end := sync.OnceFunc(func() { close(leave) })
	defer end()
	other := stand(t, "other", nil)
	auth := standListing(t, entry("photos", photosHost, slow.addr()), entryBelow("other", "/other/", other.addr(), true))
	d := openListed(t, auth, map[string]string{"MAX_CONNECTIONS": "200", "ROUTES": `handle /own/* {
		reverse_proxy ` + other.addr() + `
	}`}, slow, other)
	var all sync.WaitGroup
	for range 100 {
		before := len(slow.received())
		all.Go(func() { d.request(t, "GET", "/", "", member(photosHost)...) })
		for range 500 {
			if len(slow.received()) > before {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if n := len(slow.received()); n != 100 {
		t.Fatalf("%d requests arrived", n)
	}
	begun := time.Now()
	for path, want := range map[string]int{"/own/x": 200, "/pforte/": 200, "/other/x": 403} {
		if got := d.request(t, "GET", path, "", member("home.example.org")...); got.StatusCode != want {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("they took %s", took)
	}
	end()
	all.Wait()
}

// A hundred requests at once while the list changes: each is answered by one of its applications.
func TestListed_RequestsDuringChangesAreAnswered(t *testing.T) {
	t.Parallel()
	first, second := stand(t, "first", nil), stand(t, "second", nil)
	auth := standListing(t, entry("photos", photosHost, first.addr()))
	d := openListed(t, auth, nil, first, second)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				begun := time.Now()
				got := d.request(t, "GET", "/", "", member(photosHost)...)
				if got.body != "first" && got.body != "second" && got.StatusCode != 503 && !couldNotConnect(got, begun) {
					t.Errorf("%d %s", got.StatusCode, got.body)
					return
				}
			}
		})
	}
	for i := range 4 {
		next := []*upstream{second, first}[i%2]
		before := len(next.received())
		auth.set(entry("photos", photosHost, next.addr()))
		for deadline := time.Now().Add(time.Minute); len(next.received()) == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("change %d of the list never came", i)
				break
			}
		}
	}
	close(stop)
	all.Wait()
	if d.close(); strings.Contains(d.log.String(), "DATA RACE") {
		t.Error(d.log)
	}
}

// couldNotConnect reports whether the proxy waited in vain for a connection to a service, as on a slow machine. It
// waits two seconds.
func couldNotConnect(got answer, begun time.Time) bool {
	return got.StatusCode == http.StatusBadGateway && time.Since(begun) >= 2*time.Second
}

// The proxy tells why an application is not there.
func TestListed_AuthIsToldWhatIsLeftOutAndWhy(t *testing.T) {
	t.Parallel()
	app, unnamed := stand(t, "app", nil), stand(t, "unnamed", nil)
	_, port, _ := net.SplitHostPort(unnamed.addr())
	auth := standListing(t,
		entry("photos", photosHost, app.addr()), entry("loopback", "a.example.org", "127.0.0.1:9"), entry("metadata", "b.example.org", "169.254.169.254:80"),
		entry("auth", "c.example.org", app.addr()+`"}`), entryBelow("own", "/v1/", app.addr(), false), entry("name", "d.example.org", "localhost:"+port),
		entry("env", "e.example.org", "{env.HOME}:1"))
	d := openListed(t, auth, map[string]string{"SITE_ADDRESS": "http://home.example.org:PORT"}, app)
	d.await(t, "/", "200 app", member(photosHost)...)
	for _, host := range []string{"a", "b", "c", "e"} {
		if got := d.request(t, "GET", "/", "", member(host+".example.org")...); got.StatusCode != 404 {
			t.Errorf("%s: %d", host, got.StatusCode)
		}
	}
	auth.mu.Lock()
	auth.any = true
	auth.mu.Unlock()
	// What is behind a name is known when it is looked up.
	if got := d.request(t, "GET", "/", "", member("d.example.org")...); got.StatusCode != 502 {
		t.Errorf("a name of this machine: %d %s", got.StatusCode, got.body)
	}
	want := map[string]any{"loopback": "address", "metadata": "address", "auth": "address", "own": "own", "env": "address", "name": "address"}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		auth.mu.Lock()
		told := auth.asked[len(auth.asked)-1]["skipped"]
		auth.mu.Unlock()
		if reflect.DeepEqual(told, want) {
			return
		}
		if time.Since(begun) > 3*time.Second {
			t.Fatalf("auth was told %v", told)
		}
	}
}

// An address that leads back to the proxy is answered at the first turn.
func TestListed_ARouteBackToTheProxyIsALoop(t *testing.T) {
	t.Parallel()
	relay := stand(t, "", nil)
	auth := standListing(t, entry("photos", photosHost, relay.addr()))
	d := openListed(t, auth, nil, relay)
	turns := 0
	relay.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turns++
		to, _ := url.Parse(d.url)
		proxy := httputil.NewSingleHostReverseProxy(to)
		r.Header.Set("Cookie", "svc.app=member")
		proxy.ServeHTTP(w, r)
	})
	if got := d.request(t, "GET", "/", "", member(photosHost)...); got.StatusCode != http.StatusLoopDetected || turns != 1 {
		t.Errorf("%d after %d turns", got.StatusCode, turns)
	}
}

// The certificate is known by its key, and by nothing else.
func TestListed_HTTPSIsKnownByThePinOfTheEntry(t *testing.T) {
	t.Parallel()
	app := &upstream{Server: httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secure") }))}
	t.Cleanup(app.Close)
	at := strings.TrimPrefix(app.URL, "https://")
	sum := sha256.Sum256(app.Certificate().RawSubjectPublicKeyInfo)
	good := entry("photos", photosHost, "")
	good["to"], good["pin"] = app.URL, hex.EncodeToString(sum[:])
	bad := maps.Clone(good)
	bad["pin"] = strings.Repeat("0", 64)
	auth := standListing(t, good)
	d := openListed(t, auth, map[string]string{"APPS_TO": at})
	d.await(t, "/", "200 secure", member(photosHost)...)
	auth.set(bad)
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		got := d.request(t, "GET", "/", "", member(photosHost)...)
		auth.mu.Lock()
		told := auth.asked[len(auth.asked)-1]["skipped"]
		auth.mu.Unlock()
		if got.StatusCode == 502 && reflect.DeepEqual(told, map[string]any{"photos": "certificate"}) {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("with another key it is %d %s, auth was told %v", got.StatusCode, got.body, told)
		}
	}
	auth.set(good)
	time.Sleep(1500 * time.Millisecond) // a request by the old route is tried for 2 s
	d.await(t, "/", "200 secure", member(photosHost)...)
}

// An admin waits for the answer.
func TestListed_AProbeIsAnsweredWithinASecond(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	auth := standListing(t)
	openListed(t, auth, nil, app)
	auth.mu.Lock()
	auth.version++
	auth.probe = []map[string]string{{"id": "p1", "to": "http://" + app.addr()}}
	auth.mu.Unlock()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		auth.mu.Lock()
		answered := slices.ContainsFunc(auth.asked, func(q map[string]any) bool {
			all, _ := q["probed"].([]any)
			return len(all) == 1 && all[0].(map[string]any)["id"] == "p1" && all[0].(map[string]any)["status"] == 200.0
		})
		auth.mu.Unlock()
		if answered {
			return
		}
		if time.Since(begun) > 1500*time.Millisecond { // up to 1.1 s to the next question
			t.Fatal("no answer after 1.5 s")
		}
	}
}

// HTTP/2 with many streams on one connection.
func TestListed_ManyStreamsOfHTTP2Pass(t *testing.T) {
	t.Parallel()
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, r.URL.Path, " ", n)
	})
	auth := standListing(t, entryBelow("photos", "/photos/", app.addr(), true))
	d, transport := openTLSWith(t, "", "", map[string]string{
		"AUTH_UPSTREAM": auth.addr(), "APPS": "lan", "APPS_TO": app.addr(), "APPS_FILE": filepath.Join(t.TempDir(), "apps.json"),
	})
	d.awaitList(t)
	overTLS(t, transport, d, "/")
	port := d.addr[strings.LastIndex(d.addr, ":")+1:]
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("https://localhost:%s/photos/%d", port, i), io.LimitReader(zeros{}, 1<<20))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Cookie", "svc.app=member")
			if got := roundTrip(t, transport, req); got.ProtoMajor != 2 || got.body != fmt.Sprintf("/%d 1048576", i) {
				t.Errorf("%s: %d %s", got.Proto, got.StatusCode, got.body)
			}
		})
	}
	all.Wait()
}

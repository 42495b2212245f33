package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// listingAuth is a household's auth with the list of applications.
type listingAuth struct {
	*household
	version int
	apps    []map[string]any
	// asked are the questions of proxies.
	asked []map[string]any
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
	_ = json.NewEncoder(w).Encode(map[string]any{"version": 1, "etag": etag, "household": "Familie Kern", "apps": a.apps})
}

// openListed starts a proxy with a list, whose applications are at addresses of this machine.
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
	return open(t, all)
}

// member are the headers of a request of a user to a host.
func member(host string) []string { return []string{"Cookie", "svc.app=member", "Host", host} }

// await sends requests until the answer is as wanted, for two seconds.
func (d *server) await(t *testing.T, path, want string, headers ...string) {
	t.Helper()
	var got answer
	for begun := time.Now(); time.Since(begun) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
		got = d.request(t, "GET", path, "", headers...)
		if fmt.Sprintf("%d %s", got.StatusCode, got.body) == want {
			return
		}
	}
	t.Errorf("%s: after 2 s it is %d %s, want %s", path, got.StatusCode, got.body, want)
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
	for _, step := range []struct {
		want string
		apps []map[string]any
	}{
		{"200 first", []map[string]any{entry("photos", photosHost, first.addr())}},
		{"200 second", []map[string]any{entry("photos", photosHost, second.addr())}},
		{nothingHere, nil},
	} {
		auth.set(step.apps...)
		for _, d := range proxies {
			d.await(t, "/album", step.want, member(photosHost)...)
		}
	}
}

// A host of the list is the application's: there is no verifier, and no API but its own.
func TestListed_AHostHasItsApplicationAndThePagesOfAuthAlone(t *testing.T) {
	t.Parallel()
	app, own := stand(t, "app", nil), stand(t, "own", nil)
	auth := standListing(t, entry("photos", photosHost, app.addr()))
	for name, site := range map[string]string{"a site of one host": "http://home.example.org:PORT", "a site of all hosts": ":PORT"} {
		d := openListed(t, auth, map[string]string{"SITE_ADDRESS": site, "ROUTES": `handle /own/* {
			reverse_proxy ` + own.addr() + `
		}`}, app)
		for path, want := range map[string]string{
			"/": "200 app", "/v1/verify/chain-transaction": "200 app", "/api/v1/auth/me": "200 app", "/health": "200 app", "/pforte/": "200 auth", "/pforten": "200 app",
			"/.well-known/change-password": "200 auth", "/own/x": "200 own", "/internal/routes": nothingHere, "/internal/forward-auth?app=photos": nothingHere,
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

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
)

var update = flag.Bool("update", false, "write testdata/guarded.txt anew")

// behindTLS sends requests for https, to any host, to a proxy that trusts this machine, as
// one in front of it that speaks TLS does.
type behindTLS struct {
	proxy   string // host:port
	address string // of the client
}

// RoundTrip implements http.RoundTripper.
func (b behindTLS) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.Clone(r.Context())
	if q.Host == "" {
		q.Host = r.URL.Host
	}
	q.URL.Scheme, q.URL.Host = "http", b.proxy
	q.Header.Set("X-Forwarded-Proto", "https")
	q.Header.Set("X-Forwarded-For", b.address)
	resp, err := http.DefaultTransport.RoundTrip(q)
	if resp != nil {
		resp.Request = r // a redirect is relative to what was asked
	}
	return resp, err
}

// echo is an application that answers with what it got: in the header Seen, also where it
// opens a WebSocket, in which it echoes.
func echo(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.Header().Set("Seen", seen(r))
			return
		}
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSeen: %s\r\n\r\n", seen(r))
		_, _ = io.Copy(conn, in)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// seen are the path, the user and the credentials that an application got.
func seen(r *http.Request) string {
	text := r.RequestURI
	for _, name := range []string{"X-Auth-User-Id", "X-Auth-Username", "X-Auth-Role", "X-Auth-Name", "X-Auth-Groups"} {
		text += " " + strings.Join(r.Header[name], "|")
	}
	if fmt.Sprint(r.Header["X-Auth-Username"], r.Header["X-Auth-Name"], r.Header["X-Auth-Groups"]) != fmt.Sprint(r.Header["Remote-User"], r.Header["Remote-Name"], r.Header["Remote-Groups"]) {
		text += " other Remote-*"
	}
	for _, name := range []string{"Cookie", "Authorization", "X-Pforte-Token", "X-Auth-Consumed", "X_auth_role", "Remote_user"} {
		for _, value := range r.Header[name] {
			text += " " + name + ": " + value
		}
	}
	return text
}

// guarded is a household with applications: each rule once under a path and once with a
// host of its own.
type guarded struct {
	household
	t   *testing.T
	app string // address
	// listed is whether their routes come from auth, and not from the operator.
	listed   bool
	visitors int
}

const (
	portalOrigin   = "https://home.example.org"
	guardedRecheck = 500 * time.Millisecond
)

// routes are those of the applications. Below /any/ the guard gets every host.
func (g *guarded) routes() string {
	var b strings.Builder
	slugs := []string{"all", "admins", "kids", "strict", "closed", "books"}
	if g.listed {
		slugs = nil
	}
	for _, slug := range slugs {
		host := slug
		if slug == "books" {
			host = "xn--bcher-kva"
		}
		fmt.Fprintf(&b, "@%[1]s host %[2]s.example.org\nhandle @%[1]s {\nimport require_app %[1]s\nreverse_proxy %[3]s\n}\n", slug, host, g.app)
		fmt.Fprintf(&b, "handle /%[1]s/* {\nimport require_app %[1]s-path\nreverse_proxy %[2]s\n}\n", slug, g.app)
	}
	fmt.Fprintf(&b, "@any path /any/*\nhandle @any {\nimport require_app all\nreverse_proxy %[1]s\n}\nhandle /none/* {\nimport require_app none\nreverse_proxy %[1]s\n}\n", g.app)
	return b.String()
}

func newGuarded(t *testing.T, listed bool) *guarded {
	t.Helper()
	g := &guarded{t: t, app: echo(t), listed: listed}
	o := g.options("home.test", map[string]string{"PUBLIC_URL": portalOrigin, "SESSION_SECURE": "true"})
	change := o.change
	o.change = func(l *layout.Layout) {
		change(l)
		l.Extra["pforte-proxy"]["ROUTES"], l.Extra["pforte-proxy"]["GUARD_RECHECK"] = g.routes(), guardedRecheck.String()
		if listed {
			l.Extra["pforte-proxy"]["APPS"], l.Extra["pforte-proxy"]["APPS_TO"] = "lan", g.app
		}
	}
	g.world = newWorld(t, o)
	g.origin = portalOrigin
	return g
}

// enter adds an application, with its route where the operator has none.
func (g *guarded) enter(slug, address string, flags ...string) {
	g.authCommand(g.t, append([]string{"app", "add", slug, address, "--name", slug}, flags...)...)
	if g.listed {
		g.route(g.t, slug, g.app)
	}
}

// visitor is a browser without a session, with an address of its own.
func (g *guarded) visitor() *browser {
	g.visitors++
	b := newBrowser(g.t, portalOrigin)
	b.Transport = behindTLS{proxy: g.Addresses.Proxy, address: fmt.Sprintf("198.51.100.%d", g.visitors)}
	return b
}

// loggedIn is a browser with a session, that has opened each of the hosts.
func (g *guarded) loggedIn(username, password string, slugs ...string) *browser {
	b := g.visitor()
	b.login(username, password)
	for _, slug := range slugs {
		req := g.request("navigate", http.MethodGet, "https://"+slug+".example.org/album?x=1")
		a := b.send(req)
		if a.StatusCode != http.StatusOK || a.Request.URL.String() != "https://"+slug+".example.org/album?x=1" {
			g.t.Fatalf("%s is led to %s: %d %s", username, a.Request.URL, a.StatusCode, a.body)
		}
	}
	return b
}

// request is one as a browser sends it: "navigate", "fetch" or "WebSocket".
func (g *guarded) request(how, method, address string) *http.Request {
	req, err := http.NewRequestWithContext(g.t.Context(), method, address, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	h := http.Header{"Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}, "Accept": {"*/*"}}
	switch how {
	case "navigate":
		h.Set("Sec-Fetch-Mode", "navigate")
		h.Set("Sec-Fetch-Dest", "document")
		h.Set("Accept", "text/html,*/*;q=0.8")
	case "WebSocket":
		h.Set("Sec-Fetch-Mode", "websocket")
		h.Set("Connection", "Upgrade")
		h.Set("Upgrade", "websocket")
		h.Set("Sec-WebSocket-Version", "13")
		h.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	case "device":
		h = http.Header{"Accept": {"*/*"}}
	}
	if how == "WebSocket" || method == http.MethodPost && how != "device" {
		h.Set("Origin", req.URL.Scheme+"://"+req.URL.Host)
	}
	req.Header = h
	return req
}

var stateOfGo = regexp.MustCompile(`state=[\w-]{43}(\.|%2E)\d+`)

// outcome sends a request, with what a client would pretend, and returns one line: what the
// application got, or how the guard refused.
func (g *guarded) outcome(by *browser, req *http.Request) string {
	for _, c := range by.Jar.Cookies(&url.URL{Scheme: "https", Host: req.URL.Host, Path: "/"}) {
		req.AddCookie(c)
	}
	req.AddCookie(&http.Cookie{Name: "theme", Value: "dark"})
	for name, value := range map[string]string{
		"X-Auth-User-Id": "1", "X-Auth-Role": "admin", "X_Auth_Role": "admin", "X.Auth.Role": "admin", "Remote-User": "admin", "Remote_User": "admin",
		"X-Forwarded-Uri": "/public", "X-Forwarded-Method": "GET", "X-Auth-Consumed": "cookie",
	} {
		req.Header[name] = []string{value}
	}
	resp, err := by.Transport.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	var body []byte
	if resp.StatusCode != http.StatusSwitchingProtocols {
		body, err = io.ReadAll(resp.Body)
	}
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		g.t.Fatal(err)
	}
	text := fmt.Sprint(resp.StatusCode)
	if seen := resp.Header.Get("Seen"); seen != "" {
		text += " " + seen
	}
	if to := resp.Header.Get("Location"); to != "" {
		text += " " + stateOfGo.ReplaceAllString(to, "state=*")
	}
	for _, challenge := range resp.Header["Www-Authenticate"] {
		text += " " + challenge
	}
	for _, c := range resp.Cookies() {
		text += " sets " + c.Name
	}
	if resp.StatusCode >= 400 {
		var fault struct{ Reason string }
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			text += " page"
		} else if err := json.Unmarshal(body, &fault); err != nil {
			text += " " + err.Error()
		}
		text += " " + fault.Reason
	}
	return strings.TrimSpace(text)
}

// token creates an app token for applications.
func (b *browser) token(readOnly bool, slugs ...string) string {
	b.t.Helper()
	body, err := json.Marshal(map[string]any{"name": "a device", "scopes": slugs, "read_only": readOnly})
	if err != nil {
		b.t.Fatal(err)
	}
	var made struct{ Token string }
	b.request("POST", "/api/v1/auth/api-tokens", string(body)).want(b.t, 201, &made)
	return made.Token
}

// revokeToken revokes the newest token of a user.
func (b *browser) revokeToken() {
	b.t.Helper()
	var list struct{ Data []struct{ ID int64 } }
	b.request("GET", "/api/v1/auth/api-tokens", "").want(b.t, 200, &list)
	b.request("DELETE", fmt.Sprintf("/api/v1/auth/api-tokens/%d", list.Data[0].ID), "").want(b.t, 200, nil)
}

// with adds headers to a request; an empty value removes one.
func with(req *http.Request, pairs ...string) *http.Request {
	for i := 0; i < len(pairs); i += 2 {
		if req.Header.Del(pairs[i]); pairs[i+1] != "" {
			req.Header.Set(pairs[i], pairs[i+1])
		}
	}
	return req
}

func basic(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// TestGuard_DecidesAsInTheTable is about every rule, caller, kind of request and method,
// and about spellings of hosts, through the proxy and auth: go test -run Table -update. It is the
// same by the operator's lines and by the routes that admins enter.
func TestGuard_DecidesAsInTheTable(t *testing.T) {
	for name, listed := range map[string]bool{"by the operator's lines": false, "by the list": true} {
		t.Run(name, func(t *testing.T) { decidesAsInTheTable(t, listed) })
	}
}

func decidesAsInTheTable(t *testing.T, listed bool) {
	const golden, password = "testdata/guarded.txt", "a password of eight"
	g := newGuarded(t, listed)
	g.authCommand(t, "group", "add", "kids", "--name", "Kinder")
	for _, slug := range []string{"all", "admins", "kids", "strict"} {
		g.enter(slug, "https://"+slug+".example.org", "--tokens")
		g.enter(slug+"-path", "/"+slug+"/", "--tokens")
	}
	g.enter("closed", "https://closed.example.org")
	g.enter("books", "https://xn--bcher-kva.example.org")
	anybody := g.visitor()
	eventually(t, "the last one is there", func(context.Context) error {
		req := g.request("fetch", http.MethodGet, "https://xn--bcher-kva.example.org/album")
		if got := g.outcome(anybody, req); !strings.HasPrefix(got, "401") {
			return errors.New(got)
		}
		return nil
	})

	secret, err := g.AdminPassword()
	if err != nil {
		t.Fatal(err)
	}
	admin := g.loggedIn(layout.AdminName, secret, "all", "admins", "kids")
	for _, name := range []string{"otto", "paul"} {
		admin.create(name, password)
	}
	g.authCommand(t, "group", "members", "kids", "--add", "paul")
	otto, paul := g.loggedIn("otto", password, "all", "admins", "kids", "closed", "strict", "xn--bcher-kva"), g.loggedIn("paul", password, "all", "admins", "kids")
	scopes := []string{"app:all", "app:all-path", "app:admins", "app:admins-path", "app:kids", "app:kids-path"}
	byToken, readOnly, ofAdmin, revoked := paul.token(false, scopes...), paul.token(true, scopes...), admin.token(false, scopes...), otto.token(false, scopes...)
	otto.revokeToken()

	// Everybody has opened the hosts, so that the guard decides and not the hand-over.
	for slug, flags := range map[string][]string{"admins": {"--rule", "admin"}, "kids": {"--rule", "group:kids"}, "strict": {"--second-factor"}} {
		for _, app := range []string{slug + "-path", slug} {
			g.authCommand(t, append([]string{"app", "set", app}, flags...)...)
		}
	}
	eventually(t, "the rules hold", func(context.Context) error {
		for _, slug := range []string{"admins", "kids", "strict"} {
			for _, address := range []string{"https://" + slug + ".example.org/", portalOrigin + "/" + slug + "/"} {
				if got := g.outcome(otto, g.request("fetch", http.MethodGet, address)); !strings.HasPrefix(got, "403") {
					return fmt.Errorf("%s: %s", address, got)
				}
			}
		}
		return nil
	})

	var b strings.Builder
	row := func(what string, by *browser, req *http.Request) {
		fmt.Fprintf(&b, "%-56s %s\n", what, g.outcome(by, req))
	}
	for _, rule := range []string{"all", "admins", "kids"} {
		for _, address := range []string{"https://" + rule + ".example.org/album?x=1", portalOrigin + "/" + rule + "/album?x=1"} {
			fmt.Fprintf(&b, "\n# %s\n", address)
			for _, c := range []struct {
				name  string
				by    *browser
				token string
			}{{"anonymous", anybody, ""}, {"member", otto, ""}, {"group", paul, ""}, {"admin", admin, ""}, {"token", anybody, byToken}, {"read-only", anybody, readOnly}, {"admin's token", anybody, ofAdmin}} {
				for _, how := range []string{"navigate", "fetch", "WebSocket"} {
					for _, method := range []string{http.MethodGet, http.MethodPost} {
						row(c.name+" "+how+" "+method, c.by, with(g.request(how, method, address), "X-Pforte-Token", c.token))
					}
				}
			}
		}
	}

	fmt.Fprint(&b, "\n# Spellings of hosts\n")
	for _, host := range []string{
		"all.example.org", "ALL.example.ORG", "all.example.org:443", "all.example.org.", "all.example.org:8443", "all.example.org:80", "all.example.org.:443", "all.example.org..",
		"all.example.org.evil.example", "evil.example", "x.all.example.org", "all.example.org@evil.example", "[::1]", "127.0.0.1", "all_example.org", "home.example.org", "xn--all.example.org",
	} {
		for _, path := range []string{"/album", "/any/album"} { // by the route of the host, and by one of every host
			req := g.request("fetch", http.MethodGet, "https://all.example.org"+path)
			req.Host = host
			row("paul "+host+" "+path, paul, req)
		}
	}
	for _, host := range []string{"xn--bcher-kva.example.org", "XN--BCHER-KVA.example.org", "b\u00fccher.example.org", "bu\u0308cher.example.org", "bucher.example.org"} {
		req := g.request("fetch", http.MethodGet, "https://xn--bcher-kva.example.org/album")
		req.Host = host
		row("otto "+strings.Trim(fmt.Sprintf("%+q", host), `"`), otto, req)
	}

	fmt.Fprint(&b, "\n# App tokens\n")
	const calendar = "https://all.example.org/dav/"
	for _, c := range []struct {
		what string
		by   *browser
		req  *http.Request
	}{
		{"nothing", anybody, g.request("device", "PROPFIND", calendar)},
		{"nothing, where tokens do not count", anybody, g.request("device", "PROPFIND", "https://closed.example.org/dav/")},
		{"by header", anybody, with(g.request("device", "PROPFIND", calendar), "X-Pforte-Token", byToken)},
		{"by header, beside the application's own Basic", anybody, with(g.request("device", "PROPFIND", calendar), "X-Pforte-Token", byToken, "Authorization", basic("paul", "own"))},
		{"by Bearer", anybody, with(g.request("device", "PUT", calendar), "Authorization", "Bearer "+byToken)},
		{"by Basic", anybody, with(g.request("device", "PUT", calendar), "Authorization", basic("paul", byToken))},
		{"by Basic of another user", anybody, with(g.request("device", "PUT", calendar), "Authorization", basic("otto", byToken))},
		{"by Basic from a foreign page", anybody, with(g.request("fetch", http.MethodPost, calendar), "Authorization", basic("paul", byToken), "Sec-Fetch-Site", "cross-site")},
		{"by header and by Basic", anybody, with(g.request("device", "PUT", calendar), "X-Pforte-Token", byToken, "Authorization", basic("paul", byToken))},
		{"read-only PROPFIND", anybody, with(g.request("device", "PROPFIND", calendar), "Authorization", basic("paul", readOnly))},
		{"read-only PUT", anybody, with(g.request("device", "PUT", calendar), "Authorization", basic("paul", readOnly))},
		{"where tokens do not count", anybody, with(g.request("device", "PROPFIND", "https://closed.example.org/dav/"), "X-Pforte-Token", byToken)},
		{"wrong, beside a session", paul, with(g.request("navigate", http.MethodGet, calendar), "X-Pforte-Token", byToken[:len(byToken)-1]+"_")},
		{"revoked, beside a session", otto, with(g.request("fetch", http.MethodGet, calendar), "X-Pforte-Token", revoked)},
		{"own Basic beside a session", paul, with(g.request("fetch", http.MethodGet, calendar), "Authorization", basic("paul", "own"))},
		{"a password as Basic", anybody, with(g.request("device", "PROPFIND", calendar), "Authorization", basic("paul", password))},
		{"in the query", anybody, g.request("device", "PROPFIND", calendar+"?token="+byToken)},
		{"for the API", anybody, with(g.request("device", http.MethodGet, portalOrigin+"/api/v1/auth/me"), "Authorization", "Bearer "+byToken, "X-Pforte-Token", byToken)},
	} {
		row(c.what, c.by, c.req)
	}

	fmt.Fprint(&b, "\n# Pages of other origins\n")
	for _, c := range []struct {
		what string
		req  *http.Request
	}{
		{"cross-site POST", with(g.request("fetch", http.MethodPost, calendar), "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")},
		{"same-site POST", with(g.request("fetch", http.MethodPost, calendar), "Sec-Fetch-Site", "same-site", "Origin", portalOrigin)},
		{"POST with Origin alone", with(g.request("fetch", http.MethodPost, calendar), "Sec-Fetch-Site", "")},
		{"POST with another Origin alone", with(g.request("fetch", http.MethodPost, calendar), "Sec-Fetch-Site", "", "Origin", "http://all.example.org")},
		{"POST with Origin null", with(g.request("fetch", http.MethodPost, calendar), "Sec-Fetch-Site", "", "Origin", "null")},
		{"POST with neither", with(g.request("fetch", http.MethodPost, calendar), "Sec-Fetch-Site", "", "Origin", "")},
		{"WebSocket from another origin", with(g.request("WebSocket", http.MethodGet, calendar), "Origin", portalOrigin)},
		{"WebSocket without Origin", with(g.request("WebSocket", http.MethodGet, calendar), "Origin", "")},
		{"cross-site navigation", with(g.request("navigate", http.MethodGet, calendar), "Sec-Fetch-Site", "cross-site")},
		{"beside a cookie of the whole domain", with(g.request("fetch", http.MethodGet, calendar), "Cookie", "svc.app=another's; svc.sid=another's")},
	} {
		row(c.what, paul, c.req)
	}

	fmt.Fprint(&b, "\n# A second factor, and what nobody has entered\n")
	for _, address := range []string{"https://strict.example.org/a", portalOrigin + "/strict/a", portalOrigin + "/none/a"} {
		for _, how := range []string{"navigate", "fetch", "WebSocket"} {
			row(how+" "+address, otto, g.request(how, http.MethodGet, address))
		}
	}
	got := strings.NewReplacer(byToken, "TOKEN").Replace(strings.TrimPrefix(b.String(), "\n"))

	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the change\n%s", golden, differing(got, string(want)))
	}
}

// TestGuard_AWebSocketLastsWithItsLogin is about the checks of what lasts, which have no Origin.
func TestGuard_AWebSocketLastsWithItsLogin(t *testing.T) {
	const password = "a password of eight"
	g := newGuarded(t, false)
	g.enter("all", "https://all.example.org")
	anybody := g.visitor()
	eventually(t, "the application is there", func(context.Context) error {
		if got := g.outcome(anybody, g.request("fetch", http.MethodGet, "https://all.example.org/")); !strings.HasPrefix(got, "401") {
			return errors.New(got)
		}
		return nil
	})
	secret, err := g.AdminPassword()
	if err != nil {
		t.Fatal(err)
	}
	g.loggedIn(layout.AdminName, secret).create("otto", password)
	otto := g.loggedIn("otto", password, "all")
	conn, status := openWebSocket(t, otto, g.request("WebSocket", http.MethodGet, "https://all.example.org/live"))
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("got %d", status)
	}
	time.Sleep(4 * guardedRecheck)
	if !echoes(conn) {
		t.Error("it has ended")
	}
}

// differing returns the lines of got that are not in want.
func differing(got, want string) string {
	known := strings.Split(want, "\n")
	return strings.Join(slices.DeleteFunc(strings.Split(got, "\n"), func(line string) bool { return slices.Contains(known, line) }), "\n")
}

// letters is the route of an application that shows a form, and says where it arrives.
const letters = `handle%s {
	import require_app %s
	header Content-Type "text/html; charset=utf-8"
	@sent method POST
	respond @sent "<!doctype html><html lang=de><link rel=icon href=data:,><title>Da</title><h1>Da</h1>"
	respond "<!doctype html><html lang=de><link rel=icon href=data:,><title>Brief</title><form method=post action=send><button>Senden</button></form>"
}
`

// TestForm_OfALoginThatHasEndedLeadsBack is about what people see in Chromium.
func TestForm_OfALoginThatHasEndedLeadsBack(t *testing.T) {
	node(t)
	chromium(t)
	h := household{}
	o := h.options("localhost", nil)
	change := o.change
	o.change = func(l *layout.Layout) {
		change(l)
		l.Extra["pforte-proxy"]["ROUTES"] = "@near host near.localhost\n@far host far.test\n" + fmt.Sprintf(letters, " @near", "near") + fmt.Sprintf(letters, " @far", "far") + fmt.Sprintf(letters, " /letters/*", "letters")
	}
	h.world = newWorld(t, o)
	_, port, _ := strings.Cut(strings.TrimPrefix(h.origin, "http://"), ":")
	for slug, address := range map[string]string{"letters": "/letters/", "near": "http://near.localhost:" + port, "far": "http://far.test:" + port} {
		h.authCommand(t, "app", "add", slug, address)
	}
	for lang, view := range map[string]string{"de": "phone", "en": "laptop"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			h.journey(t, "late.mjs", append(h.person(t, "rosa", lang), "VIEW="+view)...)
		})
	}
}

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// foreign is a reverse proxy that is not Pforte's, before auth and an application, with the
// files of deploy/proxies.
type foreign struct {
	*world
	t      *testing.T
	at     string // the proxy's host:port
	portal string // host:port as browsers know it
	notes  string // the same of the application
	token  bool   // the proxy is trusted by GUARD_TOKEN, not by its address
}

const guardToken = "0123456789abcdef0123456789abcdef"

// newForeign starts auth, the application and the proxy that start returns.
func newForeign(t *testing.T, byToken bool, start func(f *foreign, folder string, change *strings.Replacer) stack.Program) *foreign {
	t.Helper()
	f := &foreign{t: t, at: freeAddr(t), token: byToken}
	_, port := split(f.at)
	f.portal, f.notes = "home.test:"+port, "notes.home.test:"+port
	app := httptest.NewServer(http.HandlerFunc(seenByNotes))
	t.Cleanup(app.Close)
	f.world = newWorld(t, options{
		change: func(l *layout.Layout) {
			l.Extra["auth"] = map[string]string{"PUBLIC_URL": "http://" + f.portal}
			if byToken {
				l.Extra["auth"]["GUARD_TOKEN"], l.Extra["auth"]["TRUSTED_PROXIES"] = guardToken, "192.0.2.1"
			}
		},
		only: func(l layout.Layout) []stack.Program {
			program := start(f, t.TempDir(), strings.NewReplacer(
				"auth:8081", l.Addresses.Auth, "notes:8080", app.Listener.Addr().String(),
				"home.example.org", "home.test", "notes.example.org", "notes.home.test",
			))
			program.Ready = stack.Listening(f.at)
			return []stack.Program{l.Auth(), program}
		},
	})
	f.authCommand(t, "app", "add", "notes", "http://"+f.notes, "--tokens")
	return f
}

// seenByNotes is the application: it answers with what it got, and echoes in a WebSocket.
func seenByNotes(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "websocket" {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, in)
		return
	}
	n, _ := io.Copy(io.Discard, r.Body)
	_ = json.NewEncoder(w).Encode(seenNote{r.Method + " " + r.RequestURI, n, r.Header, r.Trailer})
}

type seenNote struct {
	Line    string
	Size    int64
	Header  http.Header
	Trailer http.Header
}

// browser returns one that knows the names of hosts.
func (f *foreign) browser() *browser {
	b := newBrowser(f.t, "http://"+f.notes)
	dialer := net.Dialer{}
	transport := &http.Transport{}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, f.at)
	}
	b.Transport = transport
	f.t.Cleanup(transport.CloseIdleConnections)
	return b
}

// loggedIn is a browser with a session at the portal.
func (f *foreign) loggedIn() *browser {
	f.t.Helper()
	password, err := f.AdminPassword()
	if err != nil {
		f.t.Fatal(err)
	}
	b := f.browser()
	portal := *b
	portal.origin = newBrowser(f.t, "http://"+f.portal).origin
	portal.login(layout.AdminName, password)
	return b
}

var navigation = []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Accept", "text/html"}

// raw sends a request line as it is written, and returns the status and what notes saw, if it did.
func (f *foreign) raw(b *browser, host, line string, headers ...string) (status int, seen seenNote) {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.at)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	text := line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n"
	for i := 0; i+1 < len(headers); i += 2 {
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if b != nil {
		for _, cookie := range b.Jar.Cookies(b.origin) {
			text += "Cookie: " + cookie.Name + "=" + cookie.Value + "\r\n"
		}
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		f.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		f.t.Fatalf("%s: %v", line, err)
	}
	defer func() { _ = resp.Body.Close() }()
	_ = json.NewDecoder(resp.Body).Decode(&seen)
	return resp.StatusCode, seen
}

// open opens a WebSocket.
func (f *foreign) open(b *browser, origin string) (conn io.ReadWriteCloser, status int) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+f.notes+"/live", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Origin": origin, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		req.Header.Set(name, value)
	}
	return openWebSocket(f.t, b, req)
}

// openWebSocket sends a request for a WebSocket.
func openWebSocket(t *testing.T, b *browser, req *http.Request) (conn io.ReadWriteCloser, status int) {
	t.Helper()
	lasting := *b
	lasting.Timeout = 0
	resp, err := lasting.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	conn, _ = resp.Body.(io.ReadWriteCloser)
	return conn, resp.StatusCode
}

// echoes reports whether a WebSocket still answers.
func echoes(conn io.ReadWriteCloser) bool {
	got := make([]byte, 5)
	_, err := io.WriteString(conn, "hello")
	if err == nil {
		_, err = io.ReadFull(conn, got)
	}
	return err == nil && string(got) == "hello"
}

// otherProxies are those with files, and what they cannot do, as the page says it.
var otherProxies = map[string]struct {
	start func(f *foreign, folder string, change *strings.Replacer) stack.Program
	// keepsCookies and keepsToken: Pforte's cookie of the host, and an app token in Authorization,
	// reach the application.
	keepsCookies, keepsToken bool
	// keepsUpgrades: a client can ask the application for another protocol than a WebSocket. keepsTrailers: a header
	// after the body reaches it.
	keepsUpgrades, keepsTrailers bool
	// aliases of identity headers that a client can send.
	aliases []string
}{
	"nginx":   {start: startNginx},
	"caddy":   {start: startCaddy, keepsTrailers: true},
	"traefik": {start: startTraefik, keepsCookies: true, keepsToken: true, keepsUpgrades: true, aliases: []string{"X.auth.username", "X_auth_username"}},
}

func TestOtherProxy_PutsTheLoginBeforeAnApplication(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(otherProxies)) {
		of := otherProxies[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForeign(t, name == "caddy", of.start)
			stranger := f.browser()
			stranger.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

			if got := stranger.request("GET", "/", ""); got.StatusCode != http.StatusUnauthorized {
				t.Errorf("a script without a login: %d", got.StatusCode)
			}
			led := stranger.request("GET", "/a?x=1&y=2", "", navigation...)
			if to := led.Header.Get("Location"); led.StatusCode/100 != 3 || len(led.Cookies()) != 1 || !strings.HasPrefix(to, "http://"+f.portal+"/pforte/go?app=notes&return=%2Fa%3Fx%3D1%26y%3D2") {
				t.Errorf("a page without a login: %d to %s, cookies %v", led.StatusCode, to, led.Cookies())
			}
			long := stranger.request("GET", "/a?x=1"+strings.Repeat("&y=2", 500), "", navigation...)
			if to := long.Header.Get("Location"); long.StatusCode/100 != 3 || !strings.Contains(to, "%26y%3D2&state=") {
				t.Errorf("a page with a long query without a login: %d to %s", long.StatusCode, to)
			}
			form := append([]string{"Origin", "http://" + f.notes, "Referer", "http://" + f.notes + "/a?x=1", "Accept-Language", "en"}, navigation...)
			lost := stranger.request("POST", "/a", "text=x", form...)
			if text := string(lost.body); lost.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "What you sent has not arrived.") || !strings.Contains(text, `href="http://`+f.portal+`/pforte/go?app=notes&amp;return=%2Fa%3Fx%3D1"`) || !strings.HasPrefix(lost.Header.Get("Content-Type"), "text/html") {
				t.Errorf("a form without a login: %d %v %s", lost.StatusCode, lost.Header, text)
			}
			b := f.loggedIn()
			note := func(a answer) (seen seenNote) {
				t.Helper()
				a.want(t, http.StatusOK, &seen)
				return seen
			}
			seen := note(b.request("GET", "/a?x=1&y=2", "", navigation...))
			if seen.Line != "GET /a?x=1&y=2" || seen.Header.Get("X-Auth-Username") != layout.AdminName || seen.Header.Get("Remote-User") != layout.AdminName && name != "traefik" {
				t.Errorf("after the login the application saw %+v", seen)
			}

			names := "X-Auth-User-Id, X-Auth-Username, X-Auth-Role, X-Auth-Name, X-Auth-Groups, Remote-User"
			if status, seen := f.raw(b, f.notes, "GET /", "Connection", names); status != http.StatusOK || seen.Header.Get("X-Auth-Username") != layout.AdminName {
				t.Errorf("with the names of headers in Connection: %d, and the application saw %v", status, seen.Header)
			}

			f.hidesWhatIsPfortes(b, of.keepsCookies, of.aliases)
			f.refusesForeignPages(b)
			f.opensNoSpelling()
			f.opensNoOtherProtocol(b, of.keepsUpgrades)
			if got := f.trailer(b); (got != "") != of.keepsTrailers {
				t.Errorf("after the body the application gets the user %q", got)
			}
			for _, path := range []string{"//x/a", "/x/../a", "/a;b/c", "/a%5cb"} {
				if status, seen := f.raw(b, f.notes, "GET "+path); status != http.StatusOK || seen.Line == "" {
					t.Errorf("the page says that %s passes with a login: %d", path, status)
				}
			}
			for _, host := range []string{f.portal, f.notes} {
				if status, seen := f.raw(nil, host, "GET /internal/forward-auth?app=notes"); status == http.StatusOK || seen.Line != "" {
					t.Errorf("%s/internal: %d", host, status)
				}
			}
			if status, _ := f.raw(nil, f.portal, "GET /internal/forward-auth?app=notes", "X-Guard-Token", guardToken, "X-Forwarded-Method", "GET"); status != http.StatusNotFound {
				t.Errorf("/internal with a guard's token: %d", status)
			}
			if status, _ := f.raw(nil, f.notes, "GET /", "X-Forwarded-Host", f.portal, "X-Forwarded-Uri", "/pforte/", "X-Forwarded-Method", "OPTIONS", "X-Auth-Renew", "no"); status != http.StatusUnauthorized {
				t.Errorf("with X-Forwarded-* of the client: %d", status)
			}
			f.takesAppTokens(b, of.keepsToken)
			upload := b.request("POST", "/up", strings.Repeat("x", 3<<20), "Origin", "http://"+f.notes)
			if seen := note(upload); seen.Size != 3<<20 {
				t.Errorf("of an upload %d bytes arrived", seen.Size)
			}

			f.authCommand(t, "group", "add", "nobody")
			f.authCommand(t, "app", "set", "notes", "--rule", "group:nobody")
			refused := f.until(b, http.StatusForbidden)
			if text := string(refused.body); !strings.Contains(text, "<!doctype html>") || !strings.Contains(refused.Header.Get("Content-Type"), "text/html") {
				t.Errorf("who may not use it sees %s", text)
			}
			f.authCommand(t, "app", "set", "notes", "--rule", "login")
			f.until(b, http.StatusOK)

			live, status := f.open(b, "http://"+f.notes)
			if status != http.StatusSwitchingProtocols || !echoes(live) {
				t.Fatalf("a WebSocket of its own page: %d", status)
			}
			portal := *b
			portal.origin = newBrowser(t, "http://"+f.portal).origin
			portal.request("POST", "/api/v1/auth/logout", "").want(t, http.StatusOK, nil)
			if got := b.request("GET", "/", ""); got.StatusCode != http.StatusUnauthorized {
				t.Errorf("after the logout: %d", got.StatusCode)
			}
			if !echoes(live) {
				t.Error("the page says that an open WebSocket goes on after a logout: it does not")
			}
			f.Programs.Kill("auth")
			if status, seen := f.raw(b, f.notes, "GET /"); status < 500 || seen.Line != "" {
				t.Errorf("without auth: %d %s", status, seen.Line)
			}
		})
	}
}

// until opens a page until it has a status, because rules are read once a second.
func (f *foreign) until(b *browser, status int) (got answer) {
	f.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = b.request("GET", "/", "", navigation...); got.StatusCode == status {
			return got
		}
	}
	f.t.Fatalf("got %d, want %d", got.StatusCode, status)
	return got
}

// hidesWhatIsPfortes checks what the application sees of a request with headers and cookies that
// are not the client's to send.
func (f *foreign) hidesWhatIsPfortes(b *browser, keepsCookies bool, aliases []string) {
	t := f.t
	t.Helper()
	own := ""
	for _, cookie := range b.Jar.Cookies(b.origin) {
		own += cookie.Name + "=" + cookie.Value + "; "
	}
	if own == "" {
		t.Fatal("the host has no cookie")
	}
	headers := []string{"Cookie", "a=1; " + own + "csrf-token=x; svc.other=y; b=svc.2; my-csrf-token=z"}
	for _, name := range []string{"Remote-User", "Remote-Name", "Remote-Groups", "Remote-Email", "X-Remote-User", "X-Webauth-User", "X-Forwarded-User", "X-Auth-Username", "X-Auth-User-Id", "X-Auth-Role", "X-Auth-Consumed", "X-Guard-Token", "X-Real-Ip", "Forwarded", "X_Auth_Username", "X.Auth.Username"} {
		headers = append(headers, name, "eve")
	}
	status, seen := f.raw(nil, f.notes, "GET /", headers...)
	if status != http.StatusOK {
		t.Fatalf("with its own cookies: %d", status)
	}
	var forged []string
	for name, values := range seen.Header {
		if slices.Contains(values, "eve") {
			forged = append(forged, name)
		}
	}
	slices.Sort(forged)
	if !slices.Equal(forged, aliases) {
		t.Errorf("the client's names reach the application: %v, want %v", forged, aliases)
	}
	cookies := seen.Header.Get("Cookie")
	if !keepsCookies && cookies != "a=1; b=svc.2; my-csrf-token=z" || keepsCookies != strings.Contains(cookies, "svc.app=") {
		t.Errorf("the application sees the cookies %q", cookies)
	}
}

func (f *foreign) refusesForeignPages(b *browser) {
	t := f.t
	t.Helper()
	for site, headers := range map[string][]string{
		"foreign": {"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"}, "foreign, old": {"Origin", "http://evil.example"},
		"own": {"Origin", "http://" + f.notes},
	} {
		want := http.StatusForbidden
		if site == "own" {
			want = http.StatusOK
		}
		if got := b.request("POST", "/", "x", headers...); got.StatusCode != want {
			t.Errorf("a change from a page that is %s: %d", site, got.StatusCode)
		}
	}
	if _, status := f.open(b, "http://evil.example"); status != http.StatusForbidden {
		t.Errorf("a WebSocket of a foreign page: %d", status)
	}
	if _, status := f.open(f.browser(), "http://"+f.notes); status != http.StatusUnauthorized {
		t.Errorf("a WebSocket without a login: %d", status)
	}
}

// opensNoSpelling checks that no spelling of a path leads past the guard.
func (f *foreign) opensNoSpelling() {
	f.t.Helper()
	for _, path := range []string{
		"//x/a", "/x/../a", "/x/%2e%2e/a", "/a;b/c", "/a%5cb", "/%2fa", "/..%2fa", "/a%00b", "http://" + f.notes + "/a", "/__pforte", "/pforte/../a",
		"/pforte/%2e%2e/a", "/pforte/..%2fa", "/pforte//../a", "/PFORTE/a",
	} {
		if status, seen := f.raw(nil, f.notes, "GET "+path); seen.Line != "" {
			f.t.Errorf("%s without a login: %d, and the application saw %s", path, status, seen.Line)
		}
	}
}

// opensNoOtherProtocol checks that who is logged in cannot ask the application to go on with HTTP/2: the proxy would pass
// on what follows unread, and so with any user's name.
func (f *foreign) opensNoOtherProtocol(b *browser, keeps bool) {
	f.t.Helper()
	for _, upgrade := range [][]string{{"Upgrade", "h2c"}, {"Upgrade", "h2c, websocket"}, {"Upgrade", "h2c", "Upgrade", "websocket"}} {
		headers := append([]string{"Connection", "Upgrade, HTTP2-Settings", "HTTP2-Settings", "AAMAAABkAAQAAP__"}, upgrade...)
		_, seen := f.raw(b, f.notes, "GET /", headers...)
		if asked := strings.Contains(strings.Join(seen.Header["Upgrade"], ","), "h2c"); asked != keeps {
			f.t.Errorf("with %q the application is asked for HTTP/2: %t", upgrade, asked)
		}
	}
}

// trailer returns the name of a user that the application gets after the body of a request.
func (f *foreign) trailer(b *browser) string {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, "http://"+f.notes+"/", io.MultiReader(strings.NewReader("text")))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Trailer = http.Header{"X-Auth-Username": {"eve"}}
	resp, err := b.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var seen seenNote
	if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil || seen.Size != 4 {
		f.t.Fatalf("%d %+v %v", resp.StatusCode, seen, err)
	}
	return seen.Trailer.Get("X-Auth-Username")
}

func (f *foreign) takesAppTokens(b *browser, keeps bool) {
	t := f.t
	t.Helper()
	portal := *b
	portal.origin = newBrowser(t, "http://"+f.portal).origin
	var made struct{ Token string }
	portal.request("POST", "/api/v1/auth/api-tokens", `{"name":"phone","scopes":["app:notes"]}`).want(t, http.StatusCreated, &made)
	for _, headers := range [][]string{{"Authorization", "Bearer " + made.Token}, {"X-Pforte-Token", made.Token}} {
		status, seen := f.raw(nil, f.notes, "GET /dav", headers...)
		if status != http.StatusOK || seen.Header.Get("X-Auth-Username") != layout.AdminName {
			t.Errorf("with an app token in %s: %d", headers[0], status)
		}
		kept := seen.Header.Get("Authorization")+seen.Header.Get("X-Pforte-Token") != ""
		if kept != (keeps && headers[0] == "Authorization") {
			t.Errorf("the application sees the app token in %s: %t", headers[0], kept)
		}
	}
	if status, seen := f.raw(b, f.notes, "GET /", "Authorization", "Basic eDp5"); status != http.StatusOK || seen.Header.Get("Authorization") != "Basic eDp5" {
		t.Errorf("the application's own Authorization: %d %v", status, seen.Header["Authorization"])
	}
	if status, _ := f.raw(nil, f.notes, "GET /dav", "Authorization", "Bearer pft_"+strings.Repeat("x", 43)); status != http.StatusUnauthorized {
		t.Errorf("with a wrong app token: %d", status)
	}
}

// published copies the files of a folder below deploy/proxies, changed.
func published(t *testing.T, name, to string, change *strings.Replacer) {
	t.Helper()
	files, err := filepath.Glob(top + "/deploy/proxies/" + name + "/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of %s: %v", name, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(change.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func startNginx(f *foreign, folder string, change *strings.Replacer) stack.Program {
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	published(f.t, "nginx", folder, change)
	example, err := os.ReadFile(filepath.Join(folder, "example.conf"))
	if err != nil {
		f.t.Fatal(err)
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n" // of the folders below
	}
	text := user + "daemon off; pid nginx.pid; error_log stderr warn; worker_processes 1;\nevents {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += kind + "_temp_path " + filepath.Join(folder, kind) + ";\n"
	}
	text += "include pforte-http.conf;\n" + strings.ReplaceAll(string(example), "listen 443 ssl", "listen "+f.at) + "}\n"
	if err := os.WriteFile(filepath.Join(folder, "nginx.conf"), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return stack.Program{Name: "nginx", Path: path, Args: []string{"-p", folder, "-c", filepath.Join(folder, "nginx.conf"), "-e", "stderr"}}
}

// startCaddy starts the program of Pforte's proxy with nothing but the file.
func startCaddy(f *foreign, folder string, change *strings.Replacer) stack.Program {
	published(f.t, "caddy", folder, change)
	file := filepath.Join(folder, "Caddyfile")
	text, err := os.ReadFile(file)
	if err != nil {
		f.t.Fatal(err)
	}
	_, port := split(f.at)
	plain := strings.NewReplacer("\nhome.test {", "\nhttp://home.test:"+port+" {", "\nnotes.home.test {", "\nhttp://notes.home.test:"+port+" {",
		"# header_up X-Guard-Token", "header_up X-Guard-Token", "{env.GUARD_TOKEN}", guardToken).Replace(string(text))
	plain = "{\nadmin off\nauto_https off\npersist_config off\ndefault_bind 127.0.0.1\n}\n" + plain
	if err := os.WriteFile(file, []byte(plain), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return stack.Program{
		Name: "caddy", Path: filepath.Join(os.Getenv("PFORTE_BIN"), "pforte-proxy"), Args: []string{"run", "--config", file, "--adapter", "caddyfile"},
		Env: []string{"HOME=" + folder, "XDG_DATA_HOME=" + folder, "XDG_CONFIG_HOME=" + folder},
	}
}

// traefikVersion is the release whose files are tested, and traefikSum its checksum in go.sum.
const (
	traefikVersion = "v3.7.13"
	traefikSum     = "h1:T8wy9KuaFzCkmXCqAzDy7t73pBDR1DHrJe3pqXpNXTw="
)

// startTraefik starts Traefik's own code of forwardAuth and headers. The whole program cannot be
// built from its module, which replaces others.
func startTraefik(f *foreign, folder string, change *strings.Replacer) stack.Program {
	t := f.t
	published(t, "traefik", folder, change)
	run := func(dir, name string, args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, fmt.Sprint(err))
		}
		return out
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(run(folder, "go", "mod", "download", "-json", "github.com/traefik/traefik/v3@"+traefikVersion), &module); err != nil {
		t.Fatal(err)
	}
	if module.Sum != traefikSum {
		t.Fatalf("Traefik %s has the checksum %s", traefikVersion, module.Sum)
	}
	source := filepath.Join(folder, "source")
	if err := os.CopyFS(source, os.DirFS("testdata/traefik")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"middlewares/auth/forward.go", "middlewares/auth/connectionheader.go", "middlewares/forwardedheaders/forwarded_header.go", "middlewares/headers/header.go",
		"middlewares/middleware.go", "middlewares/response_modifier.go", "middlewares/stateful.go", "ip/checker.go", "ip/strategy.go",
	} {
		text, err := os.ReadFile(filepath.Join(module.Dir, "pkg", file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(source, "pkg", file)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(folder, "traefik")
	run(source, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-o", program, ".")
	return stack.Program{Name: "traefik", Path: program, Args: []string{f.at, filepath.Join(folder, "dynamic.yml")}}
}

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestHealthcheck_ReportsWhetherTheProxyRuns(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := open(t, map[string]string{"ROUTES_FOLDER": folder})
	port := d.admin[strings.LastIndex(d.admin, ":")+1:]
	// Files of routes are read at the start: one that is being edited is no fault of what runs.
	if err := os.WriteFile(filepath.Join(folder, "own.caddy"), []byte("handle /x {"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bind := range []string{"", "127.0.0.1", "0.0.0.0", "127.0.0.1 192.0.2.1"} {
		if out, err := program(t, map[string]string{"ADMIN_PORT": port, "ADMIN_BIND": bind, "ROUTES_FOLDER": folder}, "healthcheck").CombinedOutput(); err != nil {
			t.Errorf("bind %q: %v\n%s", bind, err, out)
		}
	}
	out, err := program(t, map[string]string{"ADMIN_PORT": freePort(t)}, "healthcheck").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("check the proxy")) {
		t.Errorf("got %v\n%s", err, out)
	}
}

// It takes no port, so that it works beside a running proxy.
func TestCheck_SaysWhetherTheProxyWouldStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	site := "http://" + taken.Addr().String()
	for _, c := range []struct{ name, value, want string }{
		{"APPS", "lan", ""},
		{"APPS", "LAN", "APPS is neither"},
		{"ROUTES", "handle /x {", "ROUTES, line 1"},
		{"ROUTES", "handel /x {\n}", "handel"},
		{"TRUSTED_PROXIES", "10.0.0.300", "10.0.0.300"},
		{"TLS", "of", "TLS=of"},
	} {
		out, err := program(t, map[string]string{"SITE_ADDRESS": site, c.name: c.value}, "check").CombinedOutput()
		if (err == nil) != (c.want == "") || !strings.Contains(string(out), c.want) {
			t.Errorf("%s=%s: %v\n%s", c.name, c.value, err, out)
		}
	}
}

func TestHelp_AndVersionAreThere(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--help": "Without arguments it runs", "--version": "v2."} {
		out, err := program(t, nil, flag).Output()
		if err != nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s: %v\n%s", flag, err, out)
		}
	}
}

func TestSettings_ThatAreWrongEndTheProgram(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"AUTH_UPSTREAM": "http://a/b/c", "AUTH_TIMEOUT": "soon", "TRUSTED_PROXIES": "nobody", "LOG_LEVEL": "loud"} {
		settings := map[string]string{name: value, "SITE_ADDRESS": ":" + freePort(t), "ADMIN_PORT": freePort(t)}
		if out, err := program(t, settings).CombinedOutput(); err == nil || !bytes.Contains(out, []byte(value)) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestSettings_SeveralAddressesMayBePartedInAnyWay(t *testing.T) {
	t.Parallel()
	for _, separator := range []string{",", ", ", " ", " ,\n"} {
		other := freePort(t)
		d := open(t, map[string]string{"SITE_ADDRESS": "http://:PORT" + separator + "http://:" + other})
		for _, url := range []string{d.url, "http://127.0.0.1:" + other} {
			if got := (&server{url: url}).request(t, "GET", "/", ""); got.StatusCode != http.StatusOK {
				t.Errorf("%q: %s answers %d", separator, url, got.StatusCode)
			}
		}
	}
}

func TestSettings_AddressOfTheSiteHasNoPath(t *testing.T) {
	t.Parallel()
	d := open(t, map[string]string{"SITE_ADDRESS": "http://:PORT/"})
	if got := d.request(t, "GET", "/.well-known/oauth-authorization-server", ""); got.StatusCode != http.StatusNotFound {
		t.Errorf("with a slash at its end, another path: %d", got.StatusCode)
	}
	for _, address := range []string{"https//home.example", "http:/home.example", "https://home.example/pforte"} {
		out, err := program(t, map[string]string{"SITE_ADDRESS": address}, "check").CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("SITE_ADDRESS has "+address)) {
			t.Errorf("%s: %v\n%s", address, err, out)
		}
	}
}

func TestProgram_InternalAddressHasLivezAndMetricsOnly(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	h.request(t, "GET", "/health", "")
	inside := &server{url: h.admin}
	if got := inside.request(t, "GET", "/metrics", ""); !strings.Contains(got.body, "caddy_http_requests_total") {
		t.Errorf("got %d %.200s", got.StatusCode, got.body)
	}
	for _, path := range []string{"/config/", "/load", "/stop", "/", "/api/v1/auth/me"} {
		if got := inside.request(t, "GET", path, ""); got.StatusCode != 404 {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	for _, path := range []string{"/metrics", "/livez"} {
		german(t, h.request(t, "GET", path, ""), 404)
	}
}

// Caddy would set nine tenths of the machine's memory.
func TestProgram_MemoryHasALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"": "1.34217728e+08", "256MiB": "2.68435456e+08"} {
		h := openSite(t, map[string]string{"GOMEMLIMIT": set})
		if got := (&server{url: h.admin}).request(t, "GET", "/metrics", ""); !strings.Contains(got.body, "\ngo_gc_gomemlimit_bytes "+want+"\n") {
			t.Errorf("GOMEMLIMIT=%q: not %s", set, want)
		}
	}
}

func TestLog_HoldsTheRequestButNoSecret(t *testing.T) {
	t.Parallel()
	verifier := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "svc.sid=SECRET")
		w.Header().Set("PAYMENT-RESPONSE", "SECRET")
		w.Header().Set("X-CSRF-Token", "SECRET")
	})
	h := openSite(t, map[string]string{"VERIFIER_UPSTREAM": verifier.addr(), "LOG_LEVEL": "debug"})
	secrets := []string{
		"Cookie", "svc.sid=SECRET", "Authorization", "Bearer SECRET", "PAYMENT-SIGNATURE", "SECRET", "X-PAYMENT", "SECRET",
		"X-CSRF-Token", "SECRET", "X-Request-Id", "the-request",
	}
	h.request(t, "POST", "/v1/verify/chain-transaction?token=SECRET", `{"a":"SECRET"}`, secrets...)
	h.request(t, "POST", "/api/v1/auth/login", `{"a":"SECRET"}`, secrets...)
	h.request(t, "GET", "/api/v1/lists", "", secrets...)
	h.auth.Close()
	h.request(t, "GET", "/api/v1/lists?token=SECRET", "", secrets...)
	h.close()
	if text := h.log.String(); strings.Contains(text, "SECRET") {
		t.Errorf("the log contains a secret:\n%s", text)
	}
	var line struct {
		Msg       string
		RequestID string `json:"request_id"`
		Request   struct {
			ClientIP string `json:"client_ip"`
			URI      string
		}
	}
	for text := range strings.Lines(h.log.String()) {
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if line.Msg == "handled request" {
			break
		}
	}
	if line.RequestID != "the-request" || line.Request.ClientIP != "127.0.0.1" || line.Request.URI != "/v1/verify/chain-transaction?-" {
		t.Errorf("the first answer is logged as %+v", line)
	}
}

// A path that is no file is rewritten, which Caddy logs with the query beside the request.
func TestLog_OfARewrittenPathHoldsNoQuery(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "index.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, map[string]string{"FRONTEND_ROOT": root, "LOG_LEVEL": "debug"})
	d.request(t, "GET", "/page?token=SECRET", "")
	d.close()
	if text := d.log.String(); strings.Contains(text, "SECRET") || !strings.Contains(text, `"/page?-"`) {
		t.Errorf("the log is:\n%s", text)
	}
}

// Anybody can send hosts and paths of 64 KB, and a container keeps a few MB of log. Caddy itself looks for challenges
// of authorities, before all routes, in files whose names begin with the host.
func TestLog_LinesAreShort(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	long := strings.Repeat("a", 60_000)
	for name, text := range map[string]string{
		"host":      "GET / HTTP/1.1\r\nHost: " + long + "\r\n",
		"path":      "GET /" + strings.Repeat("\xff", 60_000) + " HTTP/1.1\r\nHost: a\r\n",
		"challenge": "GET /.well-known/acme-challenge/x?SECRET HTTP/1.1\r\nHost: " + long + "\r\nUser-Agent: SECRET\r\n",
	} {
		conn := d.dial(t, 20*time.Second)
		_, _ = io.WriteString(conn, text+"Connection: close\r\n\r\n")
		if b, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 ") {
			t.Errorf("%s: %v, %.200s", name, err, b)
		}
		_ = conn.Close()
	}
	d.close()
	requests := 0
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, `"handled request"`) {
			requests++
		}
		if len(line) > 10_000 || strings.Contains(line, "SECRET") {
			t.Errorf("a line of %d bytes: %.1000s", len(line), line)
		}
	}
	if requests != 3 {
		t.Errorf("%d requests are logged, not 3", requests)
	}
}

// A settlement may be under way.
func TestStop_RequestsUnderWayFinish(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	verifier := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "the receipt")
	})
	h := openSite(t, map[string]string{"VERIFIER_UPSTREAM": verifier.addr()})
	got := make(chan answer, 1)
	go func() { got <- h.request(t, "POST", "/v1/verify/chain-transaction", "{}") }()
	<-entered
	if err := h.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(h.log.String(), "shutting down") {
		time.Sleep(10 * time.Millisecond)
	}
	close(leave)
	if a := <-got; a.StatusCode != 200 || a.body != "the receipt" {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	<-h.ended
	if h.exit != nil {
		t.Errorf("the program ended with %v", h.exit)
	}
}

func TestStop_ServesOnForTheDelay(t *testing.T) {
	t.Parallel()
	h := openSite(t, map[string]string{"SHUTDOWN_DELAY": "2s"})
	if err := h.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if got := h.request(t, "GET", "/api/v1/auth/me", ""); got.StatusCode != http.StatusOK {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	select {
	case <-h.ended:
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
	}
}

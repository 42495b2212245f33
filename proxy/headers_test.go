package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// forged is what a client sends to pass for another user.
var forged = []string{
	"X-Auth-User-Id", "1", "X-Auth-Username", "root", "X-Auth-Role", "admin", "X-Auth-Other", "x", "x-auth-role", "admin",
	"X_Auth_Role", "admin", "X-Auth_Role", "admin", "X.Auth.Role", "admin",
	"X+Auth+Role", "admin", "X~Auth~Role", "admin", "X!Auth-Role", "admin", "X^Auth|Role", "admin", "X`Auth'Role", "admin", "X*Auth#Role", "admin", "X$Auth%Role", "admin", "X&Auth-Role", "admin",
	"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example", "X-Forwarded-Method", "GET",
	"X-Forwarded-Uri", "/public", "X-Forwarded-Port", "443", "X-Forwarded-Prefix", "/x", "X-Forwarded-User", "root",
	"Forwarded", "for=6.6.6.6", "X-Real-Ip", "6.6.6.6", "X-Client-Ip", "6.6.6.6", "True-Client-Ip", "6.6.6.6",
	"X-Original-Url", "/admin", "X-Rewrite-Url", "/admin", "X-Http-Method-Override", "DELETE", "X-Method-Override", "DELETE",
	"Proxy", "http://evil.example",
	"Remote-User", "root", "Remote-Groups", "admins", "Remote-Name", "Root", "Remote-Email", "root@x", "REMOTE_USER", "root", "Remote.User", "root",
	"X-Remote-User", "root", "X-Webauth-User", "root", "X-Webauth-Role", "Admin", "X_Webauth-User", "root", "X-Authenticated-User", "root", "X-Authentik-Username", "root",
	"X-User", "root", "X-Username", "root", "X-User-Id", "1", "X-Forwarded-Email", "root@x", "X-Forwarded-Groups", "admins", "X-Forwarded-Preferred-Username", "root",
	"X-Ms-Client-Principal", "x", "X-Ms-Client-Principal-Name", "root", "X-Goog-Authenticated-User-Email", "root@x", "X-Goog-Iap-Jwt-Assertion", "x",
	"Oidc-Claim-Sub", "root", "OIDC_CLAIM_email", "root@x", "Shib-Identity-Provider", "x", "Mellon-Name-Id", "root", "X-Token-Subject", "root", "X-Token-User-Roles", "admin", "X-Userinfo", "e30=", "X-Consumer-Username", "root",
	"X-Amzn-Oidc-Identity", "root", "X-Amzn-Oidc-Data", "x", "Tailscale-User-Login", "root", "X-Forwarded-Client-Cert", "x", "Ssl-Client-Verify", "SUCCESS",
	"Cf-Connecting-Ip", "6.6.6.6", "CF-Access-Authenticated-User-Email", "root@x", "Cf-Ipcountry", "XX", "Client-Ip", "6.6.6.6", "Fastly-Client-Ip", "6.6.6.6",
	"X-Cluster-Client-Ip", "6.6.6.6", "Fly-Client-Ip", "6.6.6.6", "X-Sendfile-Type", "X-Accel-Redirect", "X-Accel-Mapping", "/=/", "X-Accel-Redirect", "/x",
}

// Also behind a proxy that is trusted to name the client's address.
func TestHeaders_ATrustedProxyCannotNameTheUser(t *testing.T) {
	t.Parallel()
	frontend := stand(t, "frontend", nil)
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": frontend.addr(), "TRUSTED_PROXIES": "127.0.0.1/32"})
	sent := slices.Concat(forged, []string{
		"X_Forwarded_For", "6.6.6.6", "X.Forwarded.Host", "evil.example", "X+Forwarded+For", "6.6.6.6", "X-Forwarded~Host", "evil.example",
	})
	h.request(t, "GET", "/page", "", sent...)
	for i := 0; i < len(sent); i += 2 {
		name := http.CanonicalHeaderKey(sent[i])
		got := frontend.last(t).Header[name]
		switch name {
		case "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Method", "X-Forwarded-Uri":
		default:
			if len(got) > 0 {
				t.Errorf("%s is %q", name, got)
			}
		}
	}
}

// What looks like them and is not.
func TestHeaders_OrdinaryOnesArrive(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	ordinary := []string{"Authorization", "Bearer x", "X-User-Agent", "grpc-web", "Client-Hint", "x", "X-Requested-With", "XMLHttpRequest", "Range", "bytes=0-1", "If-None-Match", "x", "Remote", "x", "X-Csrf-Token", "x"}
	h.request(t, "GET", "/api/v1/lists", "", append([]string{"Cookie", "svc.sid=member"}, ordinary...)...)
	for i := 0; i < len(ordinary); i += 2 {
		if got := h.app.last(t).Header[ordinary[i]]; len(got) != 1 || got[0] != ordinary[i+1] {
			t.Errorf("%s is %q", ordinary[i], got)
		}
	}
}

func TestHeaders_ForgedOnesNeverArrive(t *testing.T) {
	t.Parallel()
	frontend := stand(t, "frontend", nil)
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": frontend.addr()})
	for path, service := range map[string]*upstream{
		"/api/v1/auth/me": h.auth, "/v1/verify/chain-transaction": h.verifier, "/api/v1/lists": h.app, "/page": frontend,
	} {
		h.request(t, "GET", path, "", append([]string{"Cookie", "svc.sid=member"}, forged...)...)
		got := service.last(t)
		own := http.Header{"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {h.addr}}
		if service == h.app {
			own.Set("X-Auth-User-Id", "7")
			own.Set("X-Auth-Username", "anna")
			own.Set("X-Auth-Role", "member")
		}
		for i := 0; i < len(forged); i += 2 {
			name := http.CanonicalHeaderKey(forged[i])
			if arrived, want := got.Header[name], own[name]; fmt.Sprint(arrived) != fmt.Sprint(want) {
				t.Errorf("%s: %s is %q, want %q", path, name, arrived, want)
			}
		}
	}
}

func TestGuard_IsCalledWithTheRealMethodAndPath(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	headers := append([]string{"Cookie", "svc.sid=member", "X-CSRF-Token", csrfToken}, forged...)
	h.request(t, "DELETE", "/api/v1/lists/3?x=1", "", headers...)
	got := h.auth.last(t)
	for name, want := range map[string]string{
		"X-Forwarded-Method": "DELETE", "X-Forwarded-Uri": "/api/v1/lists/3?x=1", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": h.addr,
	} {
		if values := got.Header[name]; len(values) != 1 || values[0] != want {
			t.Errorf("%s is %q, want %q", name, values, want)
		}
	}
	if got.Method != "GET" || got.URL.Path != "/internal/forward-auth" || got.Header.Get("X-Auth-Role") != "" {
		t.Errorf("the guard received %s %s with %s", got.Method, got.URL, got.Header)
	}
}

// A header that Connection names is dropped on the way; a client must not drop
// the guard's so.
func TestHeaders_AClientCannotDropTheGuards(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	for _, upgrade := range []string{"", "Upgrade: h2c\r\n", "Upgrade: websocket\r\n"} {
		h.raw(t, "GET /api/v1/lists HTTP/1.1\r\nHost: x\r\nCookie: svc.sid=member\r\n"+upgrade+
			"Connection: close, Upgrade, X-Auth-User-Id, X-Auth-Role, X-Forwarded-For, Cookie\r\n\r\n")
		got := h.app.last(t).Header
		if got.Get("X-Auth-User-Id") != "7" || got.Get("X-Auth-Role") != "member" || got.Get("X-Forwarded-For") != "127.0.0.1" {
			t.Errorf("%q: the application got %s", upgrade, got)
		}
		if want := strings.Contains(upgrade, "websocket"); (got.Get("Upgrade") != "") != want {
			t.Errorf("%q: the application got Upgrade %q", upgrade, got.Get("Upgrade"))
		}
	}
}

// A client that speaks HTTP/2 through an upgrade has a connection to the
// application that no guard checks. Caddy takes the first of several lines.
func TestHeaders_OnlyAWebSocketUpgrades(t *testing.T) {
	t.Parallel()
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		if kind := r.Header.Get("Upgrade"); kind != "" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", kind)
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	})
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": app.addr()})
	for _, lines := range []string{"Upgrade: h2c\r\nUpgrade: websocket", "Upgrade: websocket\r\nUpgrade: h2c", "Upgrade: h2c\r\nUpgrade: WebSocket\r\nUpgrade: h2c"} {
		got := h.raw(t, "GET /page HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"+lines+"\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")
		if arrived := app.last(t).Header["Upgrade"]; len(arrived) != 1 || arrived[0] != "websocket" {
			t.Errorf("%q: %q arrived, answered %s", lines, arrived, got)
		}
	}
}

// Some servers take what follows a body for headers.
func TestHeaders_NoServiceGetsWhatFollowsABody(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	app := stand(t, "", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Trailer
	})
	h := openSite(t, map[string]string{"APP_UPSTREAM": app.addr(), "FRONTEND_UPSTREAM": app.addr()})
	for _, path := range []string{"/api/v1/lists", "/page"} {
		for _, announced := range []string{"", "Trailer: X-Auth-Role, Cookie\r\n"} {
			line := h.raw(t, "POST "+path+" HTTP/1.1\r\nHost: x\r\nCookie: svc.sid=member\r\nX-CSRF-Token: "+csrfToken+"\r\nTransfer-Encoding: chunked\r\n"+announced+
				"\r\n3\r\nabc\r\n0\r\nX-Auth-Role: admin\r\nX-Forwarded-For: 6.6.6.6\r\nCookie: svc.sid=x\r\n\r\n")
			if trailer := <-got; len(trailer) > 0 || line != "HTTP/1.1 200 OK" {
				t.Errorf("%s, %q: %v arrived, answered %s", path, announced, trailer, line)
			}
		}
	}
}

// raw sends bytes and returns the answer's first line.
func (d *server) raw(t *testing.T, request string) string {
	t.Helper()
	conn := d.dial(t, 10*time.Second)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestHeaders_ATrustedProxyInFrontNamesTheClient(t *testing.T) {
	t.Parallel()
	h := openSite(t, map[string]string{"TRUSTED_PROXIES": "10.9.0.0/16 127.0.0.1/32"})
	for chain, want := range map[string]string{
		"":                               "127.0.0.1",
		"203.0.113.5":                    "203.0.113.5",
		"6.6.6.6, 203.0.113.5, 10.9.1.2": "203.0.113.5", // what the client wrote itself stands left
		"2001:db8::1":                    "2001:db8::1",
	} {
		headers := []string{"X-Forwarded-Proto", "https"}
		if chain != "" {
			headers = append(headers, "X-Forwarded-For", chain)
		}
		h.request(t, "GET", "/api/v1/auth/me", "", headers...)
		got := h.auth.last(t).Header
		if got.Get("X-Forwarded-For") != want || got.Get("X-Forwarded-Proto") != "https" {
			t.Errorf("%q: For %q, Proto %q", chain, got["X-Forwarded-For"], got["X-Forwarded-Proto"])
		}
	}
}

func TestHeaders_SecurityOnesAreOnEveryAnswer(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	for _, path := range []string{"/", "/api/v1/auth/me", "/v1/verify/chain-transaction", "/nothing", "/internal/x", "/api/v1/lists"} {
		got := h.request(t, "GET", path, "").Header
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "SAMEORIGIN", "Content-Security-Policy": "frame-ancestors 'self'",
			"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
			"Server": "", "Via": "", "Strict-Transport-Security": "",
		} {
			if got.Get(name) != want || len(got[name]) > 1 {
				t.Errorf("%s: %s is %q", path, name, got[name])
			}
		}
	}
}

func TestHeaders_AServiceMayChooseItsOwnSecurityOnes(t *testing.T) {
	t.Parallel()
	frontend := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("X-Frame-Options", "DENY")
	})
	d := open(t, map[string]string{"FRONTEND_UPSTREAM": frontend.addr()})
	got := d.request(t, "GET", "/", "").Header
	if got.Get("Content-Security-Policy") != "default-src 'self'" || got.Get("X-Frame-Options") != "DENY" {
		t.Errorf("got %s", got)
	}
}

func TestHeaders_PagesKeepTheirSecurityOnes(t *testing.T) {
	t.Parallel()
	own := http.Header{
		"Content-Security-Policy": {"default-src 'none'; form-action 'self' https://photos.example.org; frame-ancestors 'none'"},
		"X-Frame-Options":         {"DENY"}, "Referrer-Policy": {"same-origin"}, "Cache-Control": {"no-store"}, "Vary": {"Accept-Language, Cookie"},
		"Permissions-Policy": {"publickey-credentials-get=(self), publickey-credentials-create=(self)"},
		"Set-Cookie":         {"svc.2fa=a; HttpOnly", "svc.lang=de", "csrf-token=b"},
	}
	auth := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range own {
			w.Header()[name] = values
		}
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr()})
	got := h.request(t, "POST", "/pforte/login", "name=anna").Header
	for name, want := range own {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %q", name, got[name])
		}
	}
	if got.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("without the proxy's own: %s", got)
	}
}

func TestHeaders_ARequestHasOneIdEverywhere(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	made := regexp.MustCompile(`^[0-9a-f-]{36}$`)
	for sent, kept := range map[string]bool{
		"": false, "abc-1.2_3": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a b": false, "a,b": false, `"a"`: false, "ä": false,
	} {
		var headers []string
		if sent != "" {
			headers = []string{"X-Request-Id", sent}
		}
		got := h.request(t, "GET", "/v1/verify/chain-transaction", "", headers...).Header["X-Request-Id"]
		arrived := h.verifier.last(t).Header["X-Request-Id"]
		if len(got) != 1 || len(arrived) != 1 || got[0] != arrived[0] {
			t.Errorf("%q: answered %q, passed on %q", sent, got, arrived)
			continue
		}
		if kept && got[0] != sent || !kept && !made.MatchString(got[0]) {
			t.Errorf("%q: became %q", sent, got[0])
		}
		if refused := h.request(t, "GET", "/internal/ready", "", headers...).Header["X-Request-Id"]; len(refused) != 1 || kept && refused[0] != sent || !kept && !made.MatchString(refused[0]) {
			t.Errorf("%q: the proxy's own answer has %q", sent, refused)
		}
	}
	two := h.request(t, "GET", "/health", "", "X-Request-Id", "a", "X-Request-Id", "b").Header["X-Request-Id"]
	if len(two) != 1 || !made.MatchString(two[0]) {
		t.Errorf("two became %q", two)
	}
}

func TestHeaders_APaymentOf16KBPassesAndEndlessOnesDoNot(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	payment := strings.Repeat("x", 16<<10)
	if got := h.request(t, "POST", "/v1/verify/chain-transaction", "{}", "PAYMENT-SIGNATURE", payment); got.StatusCode != 200 {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
	if got := h.verifier.last(t).Header.Get("PAYMENT-SIGNATURE"); got != payment {
		t.Errorf("%d bytes arrived", len(got))
	}
	got := h.raw(t, "GET /health HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", 80_000)+"\r\n\r\n")
	if got != "HTTP/1.1 431 Request Header Fields Too Large" {
		t.Errorf("got %s", got)
	}
}

func TestHeaders_AChallengeOfManyKBComesBack(t *testing.T) {
	t.Parallel()
	challenge := strings.Repeat("y", 30<<10)
	verifier := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("PAYMENT-REQUIRED", challenge)
		w.WriteHeader(http.StatusPaymentRequired)
	})
	h := openSite(t, map[string]string{"VERIFIER_UPSTREAM": verifier.addr()})
	got := h.request(t, "POST", "/v1/verify/chain-transaction", "")
	if got.StatusCode != 402 || got.Header.Get("PAYMENT-REQUIRED") != challenge {
		t.Errorf("got %d with %d bytes", got.StatusCode, len(got.Header.Get("PAYMENT-REQUIRED")))
	}
}

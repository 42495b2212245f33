package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestRoutes_EveryPathHasItsService(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	for path, want := range map[string]string{
		"/api/v1/auth/login":                             "auth",
		"/api/v1/auth/users/3":                           "auth",
		"/api/v1/auth/openapi.json":                      "auth",
		"/pforte":                                        "auth",
		"/pforte/":                                       "auth",
		"/pforte/admin/members/3?page=2":                 "auth",
		"/.well-known/change-password":                   "auth",
		"/pforte/oidc/token":                             "auth",
		"/.well-known/webfinger":                         "auth",
		"/.well-known/oauth-authorization-server/pforte": "auth",
		"/api/v1/lists":                                  "app",
		"/v1/verify/chain-transaction":                   "verifier",
		"/v1/verify/base-transaction":                    "verifier",
		"/mcp":                                           "verifier",
		"/health":                                        "verifier",
		"/.well-known/receipt-signing-key.json":          "verifier",
		"/.well-known/receipt-log.json":                  "verifier",
		"/v1/log/1/tile/0/x001/234.p/5":                  "verifier",
		"/.well-known/x402":                              "verifier",
		"/openapi.json":                                  "verifier",
		"/llms.txt":                                      "verifier",
	} {
		if got := h.request(t, "GET", path, "", "Cookie", "svc.sid=member"); got.StatusCode != 200 || got.body != want {
			t.Errorf("%s: %d %s, want %s", path, got.StatusCode, got.body, want)
		}
	}
}

// Browsers ask each host for an icon. A frontend has its own.
func TestRoutes_IconsAreThoseOfThePortal(t *testing.T) {
	t.Parallel()
	icons := map[string]string{"/favicon.ico": "/pforte/icon-192.png", "/apple-touch-icon.png": "/pforte/icon-180.png"}
	portal := open(t, map[string]string{"VERIFIER_UPSTREAM": "off", "AUTH_UPSTREAM": stand(t, "auth", guard).addr()})
	frontend := open(t, map[string]string{"FRONTEND_UPSTREAM": stand(t, "app", nil).addr()})
	for path, to := range icons {
		if got := portal.request(t, "GET", path, ""); got.StatusCode != 302 || got.Header.Get("Location") != to {
			t.Errorf("%s: %d to %q", path, got.StatusCode, got.Header.Get("Location"))
		}
		if got := frontend.request(t, "GET", path, ""); got.StatusCode != 200 || got.body != "app" {
			t.Errorf("%s with a frontend: %d %s", path, got.StatusCode, got.body)
		}
	}
}

// A household without a verifier has no word of payments.
func TestRoutes_WithoutAVerifierThereIsNothingOfIt(t *testing.T) {
	t.Parallel()
	h := open(t, map[string]string{"VERIFIER_UPSTREAM": "off", "AUTH_UPSTREAM": stand(t, "auth", guard).addr()})
	for _, path := range []string{
		"/v1/verify/chain-transaction", "/v1/log/1/checkpoint", "/v1/finality/ethereum/0x00", "/v1/", "/mcp", "/health", "/openapi.json", "/llms.txt",
		"/.well-known/x402", "/.well-known/receipt-signing-key.json", "/.well-known/receipt-log.json",
	} {
		for _, method := range []string{"GET", "POST"} {
			got := h.request(t, method, path, "")
			if got.StatusCode != 404 || strings.Contains(strings.ToLower(got.body), "pay") {
				t.Errorf("%s %s: %d %s", method, path, got.StatusCode, got.body)
			}
		}
	}
	got := h.request(t, "GET", "/", "")
	if got.StatusCode != 200 || !strings.Contains(got.body, "/api/v1/auth/") || strings.Contains(got.body, "/v1/verify") || strings.Contains(got.body, "Paid") {
		t.Errorf("the text at / is %d %s", got.StatusCode, got.body)
	}
	if got := h.request(t, "GET", "/pforte/", ""); got.body != "auth" {
		t.Errorf("the pages: %d %s", got.StatusCode, got.body)
	}
}

func TestRoutes_PathAndQueryArriveAsSent(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	const path = "/v1/verify/chain-transaction?a=b%20c&d=%2F"
	h.request(t, "POST", path, "{}")
	if got := h.verifier.last(t); got.RequestURI != path || got.Method != "POST" {
		t.Errorf("got %s %s", got.Method, got.RequestURI)
	}
}

func TestRoutes_InternalPathsAreNotRoutedInAnySpelling(t *testing.T) {
	t.Parallel()
	frontend := stand(t, "frontend", nil)
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": frontend.addr()})
	for _, path := range []string{
		"/internal", "/internal/", "/internal/forward-auth", "/internal/forward-auth?role=admin", "//internal/forward-auth",
		"/INTERNAL/forward-auth", "/Internal/Forward-Auth", "/./internal/forward-auth", "/x/../internal/forward-auth",
		"/%69nternal/forward-auth", "/%2e/internal/forward-auth", "/x/%2e%2e/internal/forward-auth", "/%2finternal/forward-auth",
		"/internal%2fforward-auth", "/api/v1/auth/../../../internal/forward-auth", "/api/v1/auth/%2e%2e/%2e%2e/%2e%2e/internal/forward-auth",
		"/api/v1/auth/..%2f..%2f..%2finternal/forward-auth", "///internal///forward-auth", "/v1/..//internal/./forward-auth",
	} {
		got := h.request(t, "GET", path, "", "Cookie", "svc.sid=member", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
		if got.StatusCode != 404 {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	for _, u := range []*upstream{h.auth, h.verifier, h.app, frontend} {
		for _, r := range u.received() {
			t.Errorf("%s arrived", r.RequestURI)
		}
	}
}

// Clients of /mcp look for an authorization server here, and would take a single page's
// index.html for one.
func TestRoutes_NoFrontendIsAnAuthorizationServer(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "index.html"), []byte("the page"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string]map[string]string{
		"files":  {"FRONTEND_ROOT": root},
		"server": {"FRONTEND_UPSTREAM": stand(t, "frontend", nil).addr()},
	} {
		h := openSite(t, env)
		for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
			if got := h.request(t, "GET", path, ""); got.StatusCode != 404 {
				t.Errorf("%s: %s: %d %s", name, path, got.StatusCode, got.body)
			}
		}
	}
}

func TestRoutes_UnknownPathsAreNotFoundInTheCommonShape(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	for _, path := range []string{"/nothing", "/api/v2/x", "/api/v1/lists", "/index.html"} {
		german(t, d.request(t, "GET", path, ""), 404)
	}
	// Where programs look for more of the verifier than there is.
	for _, path := range []string{"/v1", "/docs", "/docs/api", "/terms", "/status", "/.well-known/mcp.json"} {
		english(t, d.request(t, "GET", path, ""), 404, "not_found", false)
	}
}

func TestRoutes_WithoutAFrontendThePageNamesThem(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	got := d.request(t, "GET", "/", "")
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %d %s", got.StatusCode, got.Header)
	}
	for _, name := range []string{"/api/v1/auth/", "/v1/verify/", "/openapi.json", "FRONTEND_ROOT"} {
		if !strings.Contains(got.body, name) {
			t.Errorf("%s is not named in %s", name, got.body)
		}
	}
}

func TestRoutes_WithoutAFrontendABrowserGetsThePages(t *testing.T) {
	t.Parallel()
	d := open(t, nil)
	got := d.request(t, "GET", "/", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if got.StatusCode != http.StatusFound || got.Header.Get("Location") != "/pforte/" || got.Header.Get("Vary") != "Accept" {
		t.Errorf("got %d %s", got.StatusCode, got.Header)
	}
}

func TestRoutes_WithoutPagesABrowserIsNotRedirected(t *testing.T) {
	t.Parallel()
	for _, off := range []string{"false", "0", "FALSE"} { // as auth reads it
		got := open(t, map[string]string{"PAGES": off}).request(t, "GET", "/", "", "Accept", "text/html")
		if got.StatusCode != http.StatusOK || strings.Contains(got.body, "/pforte/") || !strings.Contains(got.body, "/api/v1/auth/") {
			t.Errorf("PAGES=%s: got %d %s %s", off, got.StatusCode, got.Header, got.body)
		}
	}
	if got := open(t, map[string]string{"PAGES": "true"}).request(t, "GET", "/", ""); !strings.Contains(got.body, "\n\nPages of the household:  /pforte/\nLogin") {
		t.Errorf("the text is %s", got.body)
	}
}

// On every host, and before what the operator adds.
func TestRoutes_PagesAreAuths(t *testing.T) {
	t.Parallel()
	other := stand(t, "other", nil)
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": other.addr(), "ROUTES": `@photos host photos.example.org
	handle @photos {
		import require_login
		reverse_proxy ` + other.addr() + `
	}
	handle /pforte/* {
		reverse_proxy ` + other.addr() + `
	}`})
	for path, want := range map[string]string{
		"/pforte": "auth", "/pforte/login?return=/a": "auth", "/PFORTE/login": "auth", "/pforte/style.css?v=1": "auth", "/.well-known/change-password": "auth",
		"/": "other", "/pforten": "other", "/.well-known/other": "other",
	} {
		for _, host := range []string{"home.example.org", "photos.example.org"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			req.Header.Set("Cookie", "svc.sid=member")
			if got := roundTrip(t, ownTransport, req); got.StatusCode != http.StatusOK || got.body != want {
				t.Errorf("%s%s: %d %s, want %s", host, path, got.StatusCode, got.body, want)
			}
		}
	}
	for _, path := range []string{"/pforte/../internal/x", "/pforte//login", "/pforte/%2e%2e/internal/forward-auth"} {
		german(t, h.request(t, "GET", path, ""), 404)
	}
	h.auth.Close()
	german(t, h.request(t, "GET", "/pforte/login", ""), 502)
}

func TestSettings_AnEmptyOneCountsAsNone(t *testing.T) {
	t.Parallel()
	d := open(t, map[string]string{
		"AUTH_UPSTREAM": "", "VERIFIER_UPSTREAM": "", "FRONTEND_UPSTREAM": "", "FRONTEND_ROOT": "", "APP_UPSTREAM": "",
		"TRUSTED_PROXIES": "", "ROUTES": "", "APP_NAME": "", "AUTH_TIMEOUT": "", "LOG_LEVEL": "", "ADMIN_BIND": "",
	})
	if got := d.request(t, "GET", "/", ""); got.StatusCode != 200 {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
}

func TestRoutes_FurtherOnesComeFromASetting(t *testing.T) {
	t.Parallel()
	photos := stand(t, "photos", nil)
	d := open(t, map[string]string{"ROUTES": `handle /photos/* {
		reverse_proxy ` + photos.addr() + `
	}`})
	if got := d.request(t, "GET", "/photos/1", ""); got.body != "photos" {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
	german(t, d.request(t, "GET", "/other", ""), 404)
}

// Caddy would name a line of the built-in file, far behind the fault. Quoted text may be a secret.
func TestRoutes_TextThatIsNotWholeEndsTheProgramAndNamesTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"handle /x {\n\trespond \"a secret\"":            ", line 1: { is not closed",
		"\nhandle /x {\n\tlog {\n}\n":                    ", line 2: { is not closed",
		"handle /x {\n}\n}":                              ", line 3: } closes nothing",
		"handle /x {\n\trespond \"a secret\n}":           ", line 2: a quotation mark is not closed",
		"handle /x {\n\trespond `a secret\n}":            ", line 2: a quotation mark is not closed",
		"respond <<END\na secret\n":                      ": incomplete heredoc <<END",
		"handle /x { respond \"a secret\" }":             ", line 1: what follows { begins a new line",
		"handle /x\n{\n\trespond \"a secret\"\n}":        ", line 2: { stands at the end of a line",
		"# a comment has {\nhandle /x {\n}\nhandle /y {": ", line 4: { is not closed",
	} {
		folder := t.TempDir()
		file := filepath.Join(folder, "own.caddy")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, setting := range map[string]string{"ROUTES": text, file: folder} {
			settings := map[string]string{"ADMIN_PORT": freePort(t), "SITE_ADDRESS": ":" + freePort(t), "ROUTES": setting}
			if name == file {
				delete(settings, "ROUTES")
				settings["ROUTES_FOLDER"] = folder
			}
			out, err := program(t, settings).CombinedOutput()
			if err == nil || !strings.Contains(string(out), name+want) || strings.Contains(string(out), "a secret") {
				t.Errorf("%q: %v\n%s", text, err, out)
			}
		}
	}
}

func TestRoutes_WhatLooksOpenButIsNotPasses(t *testing.T) {
	t.Parallel()
	d := open(t, map[string]string{"ROUTES": `
	# a comment's { and "
	handle /quoted {
		respond "{ } \" {" # }
	}
	handle /long \
		{
		respond ` + "`a \" {`" + `
	}
	handle /lines {
		respond "a
	b" {
			close
		}
	}
	handle /text {
		respond <<END
			{ "
			END
	} # the end {`})
	for path, want := range map[string]string{"/quoted": `{ } " {`, "/long": `a " {`, "/lines": "a\n\tb", "/text": `{ "`} {
		if got := d.request(t, "GET", path, ""); got.body != want {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
}

// german wants the error body of auth's contract.
func german(t *testing.T, got answer, code int) {
	t.Helper()
	body := shape(t, got, code)
	if len(body) != 2 {
		t.Errorf("%s: %s", got.Request.URL.Path, got.body)
	}
	if text, _ := body["error"].(string); !strings.HasSuffix(text, ".") {
		t.Errorf("%s: %s is no sentence", got.Request.URL.Path, got.body)
	}
}

// english wants the verifier's error body.
func english(t *testing.T, got answer, code int, reason string, retryable bool) {
	t.Helper()
	body := shape(t, got, code)
	if body["reason"] != reason || body["retryable"] != retryable {
		t.Errorf("%s: %s", got.Request.URL.Path, got.body)
	}
}

func shape(t *testing.T, got answer, code int) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Errorf("%s: %v in %s", got.Request.URL.Path, err, got.body)
		return nil
	}
	if got.StatusCode != code || body["code"] != float64(code) || body["error"] == "" {
		t.Errorf("%s: %d %s, want %d", got.Request.URL.Path, got.StatusCode, got.body, code)
	}
	if got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: headers %s", got.Request.URL.Path, got.Header)
	}
	if got.Header.Get("X-Request-Id") == "" || got.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: headers %s", got.Request.URL.Path, got.Header)
	}
	if again := got.Header.Get("Retry-After") != ""; again != (code >= http.StatusBadGateway) {
		t.Errorf("%s: Retry-After %q with %d", got.Request.URL.Path, got.Header.Get("Retry-After"), code)
	}
	return body
}

// It would be in memory once for each request.
func TestRoutes_AnAnswerHasAHeaderOf64KBAtMost(t *testing.T) {
	t.Parallel()
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.RawQuery)
		w.Header().Set("X-Long", strings.Repeat("a", size))
	})
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": app.addr()})
	for size, want := range map[int]int{60_000: 200, 70_000: 502} {
		if got := h.request(t, "GET", "/page?"+strconv.Itoa(size), ""); got.StatusCode != want {
			t.Errorf("%d bytes: %d", size, got.StatusCode)
		}
	}
}

// Its code has no colours: what they need would be read at each start (folder highlighting).
func TestRoutes_TemplatesShowMarkdown(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	page := "{{markdown `# Photos\n\n~~~go\nfunc main() {}\n~~~\n`}}"
	if err := os.WriteFile(filepath.Join(folder, "index.html"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	h := openSite(t, map[string]string{
		"ROUTES": "handle /help/* {\nuri strip_prefix /help\nroot " + folder + "\ntemplates\nfile_server\n}",
	})
	want := "<h1 id=\"photos\">Photos</h1>\n<pre><code class=\"language-go\">func main() {}\n</code></pre>\n"
	if got := h.request(t, "GET", "/help/", ""); got.StatusCode != 200 || got.body != want {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

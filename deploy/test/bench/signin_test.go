package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

const (
	// codesPerSecond is how many codes there are for each second of a turn: more than any server exchanges.
	codesPerSecond = 2_500
	// signInsPerSecond is how many requests of authorization are sent a second where their time is measured.
	signInsPerSecond = 50
	redirectURI      = "http://app.test/cb"
	issuerPath       = "/pforte/oidc/"
)

var (
	clientSecret = regexp.MustCompile(`pfc_[A-Za-z0-9_-]{43}`)
	codeOf       = regexp.MustCompile(`[?&]code=([^&]+)`)
)

// signIns measures signing in by OpenID Connect through the proxy: the exchange of a code beside npm's oidc-provider
// behind bare Caddy, and a request of authorization of a user who has a session.
func (s *suite) signIns() {
	w := s.open(s.bin)
	w.Extra["auth"]["PUBLIC_URL"] = "http://localhost" // the host of all requests
	w.startAll()
	secrets := map[string]string{}
	for id, alg := range map[string]string{"rs": "RS256", "es": "ES256"} {
		w.auth("app", "add", id, "http://"+id+".test", "--name", id)
		secrets[id] = clientSecret.FindString(string(w.auth("oidc", "add", id, "--alg", alg, "--redirect", redirectURI)))
	}
	node, err := exec.LookPath("node")
	w.must(err)
	const peerSecret = "a secret of the benchmark"
	w.startOther("oidc-provider", node, []string{filepath.Join(w.top, "deploy/test/bench/peers/provider.mjs")}, "SECRET="+peerSecret, "REDIRECT="+redirectURI)
	w.startBareCaddy("caddy-oidc-provider", w.others["oidc-provider"])

	var rows []row
	for _, id := range []string{"rs", "es"} {
		alg := strings.ToUpper(id) + "256"
		ours := w.exchange("code → token, "+alg, w.Addresses.Proxy, issuerPath+"token", id, secrets[id], w.codes, w.pids("auth", "proxy")...)
		theirs := w.exchange("code → token, "+alg+", oidc-provider", w.others["caddy-oidc-provider"], "/token", id, peerSecret, w.peersCodes, w.pids("oidc-provider", "caddy-oidc-provider")...)
		r := w.compare(ours, theirs)
		atOnce := r[0].beside("code → token, "+alg, r[1], atLeast(2), goal{})
		if id == "rs" {
			rows = append(rows, row{what: "code → token, " + alg, unit: "1/s", ours: r[0].rate, goal: atLeast(300)})
		}
		rows = append(rows, atOnce...)
	}
	var took samples
	authorize := w.authorizations("rs")
	for range max(w.rounds, 3) {
		outcomes := openLoop(w.Context(), w.Addresses.Proxy, authorize, steadily(signInsPerSecond, 0, 4*time.Second))
		for _, o := range outcomes {
			if o.status != http.StatusSeeOther {
				w.Fatalf("a request of authorization is answered %d", o.status)
			}
		}
		took = append(took, latency(outcomes, .95))
	}
	rows = append(rows, row{what: fmt.Sprintf("authorize with a session, %d a second", signInsPerSecond), unit: "ms, p95", ours: took, goal: atMost(30)})
	s.line("\n## Sign-in\n\nOpenID Connect through the proxy, users in SQLite. Beside it npm's oidc-provider with its store in memory and a key of the same kind,\n" +
		"behind the proxy's program with nothing but `reverse_proxy`. Processor time is that of both programs. Each code is that of a browser with a session.")
	s.table("oidc-provider", rows...)
}

// auth runs a command of auth and returns its output.
func (w *world) auth(args ...string) []byte {
	w.Helper()
	program := w.Auth()
	return w.run(stack.Program{Path: program.Path, Env: program.Env}, args...)
}

// startBareCaddy starts the proxy's program with nothing but reverse_proxy.
func (w *world) startBareCaddy(name, upstream string) {
	file := filepath.Join(w.State, name+".Caddyfile")
	text := "{\n\tadmin off\n\tauto_https off\n}\nhttp://:{$PORT} {\n\treverse_proxy " + upstream + "\n}\n"
	w.must(os.WriteFile(file, []byte(text), 0o600))
	w.startOther(name, filepath.Join(w.Bin, "pforte-proxy"), []string{"run", "--config", file, "--adapter", "caddyfile"})
}

// exchange is the load of exchanges of codes, each once.
func (w *world) exchange(name, addr, path, id, secret string, codes func(id string, n int) []string, pids ...int) cell {
	return cell{name: name, addr: addr, pids: pids, clients: 16, status: http.StatusOK, perSecond: codesPerSecond, payments: func(n int) [][]byte {
		requests := make([][]byte, 0, n)
		for _, code := range codes(id, n) {
			form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirectURI}, "client_id": {id}, "client_secret": {secret}}
			requests = append(requests, request(http.MethodPost, path, form.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}))
		}
		return requests
	}}
}

// authorizations are requests of authorization, of a browser each.
func (w *world) authorizations(id string) (requests [][]byte) {
	path := issuerPath + "authorize?" + url.Values{"client_id": {id}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {"openid profile"}, "state": {"s"}}.Encode()
	for _, text := range w.me(w.Addresses.Proxy)[:min(32, w.suite.sessions)] { // of one user, who has 500 grants at most
		requests = append(requests, []byte(strings.Replace(string(text), mePath, path, 1)))
	}
	return requests
}

// codes returns codes of auth.
func (w *world) codes(id string, n int) []string {
	w.Helper()
	requests := w.authorizations(id)
	found, next := make([]string, n), make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	faults := make(chan error, 2*runtime.NumCPU())
	var all sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		all.Go(func() {
			for i := range next {
				to, err := w.location(requests[i%len(requests)])
				code := codeOf.FindStringSubmatch(to)
				if err != nil || code == nil {
					faults <- fmt.Errorf("authorize leads to %q: %w", to, err)
					return
				}
				found[i] = code[1]
			}
		})
	}
	all.Wait()
	close(faults)
	w.must(<-faults)
	return found
}

// location sends a request through the proxy and returns where its answer leads.
func (w *world) location(text []byte) (string, error) {
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return "", err
	}
	req = req.WithContext(w.Context())
	req.RequestURI, req.URL.Scheme, req.URL.Host = "", "http", w.Addresses.Proxy
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get("Location"), errors.Join(err, resp.Body.Close())
}

// peersCodes returns codes of oidc-provider.
func (w *world) peersCodes(id string, n int) []string {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, fmt.Sprintf("http://%s/mint?client=%s&n=%d", w.others["oidc-provider"], id, n), nil)
	w.must(err)
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	w.must(err)
	return strings.Split(string(body), "\n")
}

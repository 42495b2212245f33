package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/app"
	"github.com/pforte/pforte/services/auth/internal/password"
)

const (
	secret    = "a secret of the tests, 32 characters"
	adminName = "anna"
	adminPass = "correct horse"
)

// cheap hashes passwords for tests in which the cost is not the point.
var cheap = password.Options{Cost: 4}

// settings of a program that serves on free ports; more come in pairs.
func settings(t *testing.T, redisAddr string, more ...string) map[string]string {
	t.Helper()
	s := map[string]string{
		"ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "SESSION_SECRET": secret, "SESSION_SECURE": "false",
		"REDIS_URL": "redis://" + redisAddr, "DATABASE_URL": sqldbtest.SQLite(t), "LOG_LEVEL": "debug",
		"BOOTSTRAP_ADMIN_USERNAME": adminName, "BOOTSTRAP_ADMIN_PASSWORD": adminPass,
	}
	for i := 0; i < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	return s
}

// program is a running "auth serve".
type program struct {
	t      *testing.T
	main   string // http://host:port
	admin  string
	log    *buffer
	stop   context.CancelFunc
	exited chan int
	// patient makes browsers come back when the service is busy, as the answer
	// demands, and logins after a 500 too.
	patient bool
	// environment is what it was started with, firstUser the id of the first user
	// that a test brings in.
	environment map[string]string
	firstUser   int
}

// launch starts the program without waiting for it.
func launch(t *testing.T, environment map[string]string) (*program, <-chan struct{}) {
	t.Helper()
	return launchWith(t, environment, cheap)
}

func launchWith(t *testing.T, environment map[string]string, passwords password.Options) (*program, <-chan struct{}) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &program{t: t, log: &buffer{}, stop: stop, exited: make(chan int, 1), environment: environment, firstUser: 1000}
	ready := make(chan struct{})
	go func() {
		p.exited <- app.Run(ctx, app.Process{Passwords: passwords, Process: service.Process{
			Args: []string{"serve"}, Getenv: func(name string) string { return environment[name] }, Stderr: p.log, Stdout: io.Discard, Stdin: strings.NewReader(""),
			Ready: func(addr, admin net.Addr) {
				p.main, p.admin = "http://"+addr.String(), "http://"+admin.String()
				close(ready)
			},
		}})
	}()
	t.Cleanup(func() {
		p.exit()
		if t.Failed() {
			t.Logf("the program's last words: %s", p.log.last(4000))
		}
	})
	return p, ready
}

// start starts the program and waits until it serves.
func start(t *testing.T, environment map[string]string) *program {
	t.Helper()
	return startWith(t, environment, cheap)
}

func startWith(t *testing.T, environment map[string]string, passwords password.Options) *program {
	t.Helper()
	p, ready := launchWith(t, environment, passwords)
	select {
	case <-ready:
	case code := <-p.exited:
		p.exited <- code
		t.Fatalf("it ended with %d: %s", code, p.log)
	case <-time.After(30 * time.Second):
		t.Fatalf("it does not serve after 30 seconds: %s", p.log)
	}
	return p
}

// exit stops the program and returns its exit code.
func (p *program) exit() int {
	p.t.Helper()
	p.stop()
	select {
	case code := <-p.exited:
		p.exited <- code
		return code
	case <-time.After(40 * time.Second):
		p.t.Error("it does not stop")
		return -1
	}
}

// browser talks to a program as a browser does.
type browser struct {
	p      *program
	client *http.Client
	mu     sync.Mutex
	csrf   string
}

func (b *browser) token() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.csrf
}

func (b *browser) learn(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token != "" {
		b.csrf = token
	}
}

func (p *program) browser() *browser {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return &browser{p: p, client: &http.Client{Jar: jar, Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
}

// duplicate is another browser with the same cookies.
func (b *browser) duplicate() *browser {
	b.p.t.Helper()
	t := b.p.browser()
	at, err := url.Parse(b.p.main)
	if err != nil {
		b.p.t.Fatal(err)
	}
	t.client.Jar.SetCookies(at, b.client.Jar.Cookies(at))
	t.learn(b.token())
	return t
}

func (p *program) loggedIn(name, pass string) *browser {
	p.t.Helper()
	b := p.browser()
	if status, body := b.login(name, pass); status != http.StatusOK {
		p.t.Fatalf("login of %s: %d %s", name, status, body)
	}
	return b
}

// request sends a request and returns status and body; 0 when there was no answer.
func (b *browser) request(method, path, body string, headers ...string) (int, string) {
	for {
		status, answer := b.requestOnce(method, path, body, headers...)
		if status != http.StatusServiceUnavailable || !b.p.patient {
			return status, answer
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (b *browser) requestOnce(method, path, body string, headers ...string) (int, string) {
	r, err := http.NewRequestWithContext(context.Background(), method, b.p.main+path, strings.NewReader(body))
	if err != nil {
		b.p.t.Error(err)
		return 0, ""
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-CSRF-Token", b.token())
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	data, _ := io.ReadAll(resp.Body)
	b.learn(resp.Header.Get("X-CSRF-Token"))
	return resp.StatusCode, string(data)
}

func (b *browser) want(status int, method, path, body string, headers ...string) string {
	b.p.t.Helper()
	got, answer := b.request(method, path, body, headers...)
	if got != status {
		b.p.t.Fatalf("%s %s: got %d %s, want %d", method, path, got, answer, status)
	}
	return answer
}

func (b *browser) login(name, pass string) (int, string) {
	body, err := json.Marshal(map[string]string{"username": name, "password": pass})
	if err != nil {
		b.p.t.Error(err)
	}
	if b.p.patient {
		return b.steadily(http.MethodPost, prefix+"/login", string(body))
	}
	return b.request(http.MethodPost, prefix+"/login", string(body))
}

const prefix = "/api/v1/auth"

// get requests an address that is not the main one.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("after %s still not so: %s", within, what)
}

// buffer collects a log.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// last returns the end of the log.
func (b *buffer) last(n int) string {
	log := b.String()
	return log[max(0, len(log)-n):]
}

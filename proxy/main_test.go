package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asProgram in the environment makes the test binary the program itself, so that
// each test runs the real one in a process of its own.
const asProgram = "PFORTE_PROXY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is pforte-proxy with an environment of its own.
func program(t *testing.T, settings map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	home := t.TempDir()
	cmd.Env = []string{asProgram + "=1", "HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home}
	for name, value := range settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// ownTransport is not http.DefaultTransport, whose connections every httptest.Server that closes takes away from the
// tests that run beside it.
var ownTransport http.RoundTripper = func() *http.Transport {
	t, _ := http.DefaultTransport.(*http.Transport)
	return t.Clone()
}()

// server is a running proxy.
type server struct {
	// url has no slash at its end.
	url, addr, admin string
	// transport is ownTransport where it is nil.
	transport http.RoundTripper
	log       *logBuffer
	process   *os.Process
	// ended is closed when the program ended, with exit.
	ended chan struct{}
	exit  error
}

// open runs the built-in Caddyfile, or what args name, until the test ends.
func open(t *testing.T, settings map[string]string, args ...string) *server {
	t.Helper()
	for range 3 {
		if d := tryOpen(t, settings, args...); d != nil {
			return d
		}
	}
	t.Fatal("the proxy does not start")
	return nil
}

// tryOpen returns nil when another process took one of the ports.
func tryOpen(t *testing.T, settings map[string]string, args ...string) *server {
	t.Helper()
	port, adminPort := freePort(t), freePort(t)
	all := map[string]string{"SITE_ADDRESS": ":" + port, "ADMIN_PORT": adminPort}
	for name, value := range settings {
		all[name] = strings.ReplaceAll(value, "PORT", port)
	}
	d := &server{url: "http://127.0.0.1:" + port, addr: "127.0.0.1:" + port, admin: "http://127.0.0.1:" + adminPort, log: new(logBuffer)}
	cmd := program(t, all, args...)
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.process, d.ended = cmd.Process, make(chan struct{})
	go func() {
		d.exit = cmd.Wait()
		close(d.ended)
	}()
	t.Cleanup(d.close)
	for range 600 {
		select {
		case <-d.ended:
			if strings.Contains(d.log.String(), "address already in use") {
				return nil
			}
			t.Fatalf("the proxy ended:\n%s", d.log)
		case <-time.After(50 * time.Millisecond):
		}
		if err := checkHealth(t.Context(), strings.TrimPrefix(d.admin, "http://")); err != nil {
			continue
		}
		// Caddy starts its servers one after the other: the admin port may answer first.
		if conn, err := net.DialTimeout("tcp", d.addr, time.Second); err == nil {
			_ = conn.Close()
			return d
		}
	}
	t.Fatalf("the proxy does not answer after 30 s:\n%s", d.log)
	return nil
}

// dial returns a connection, which the caller closes. Reads and writes fail once the time is over.
func (d *server) dial(t *testing.T, within time.Duration) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", d.addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(within))
	return conn
}

// close stops the proxy, and kills it when it does not.
func (d *server) close() {
	_ = d.process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(10 * time.Second):
		_ = d.process.Kill()
		<-d.ended
	}
}

// givenPorts are those that freePort has returned: a proxy whose port another one has does not fail, and of one that
// listens on all addresses and one on 127.0.0.1 the latter gets the requests.
var givenPorts sync.Map

// freePort returns a port without a listener, from below those of outgoing
// connections, which could take it before the program does.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// logBuffer is what a program writes while it runs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	body string
}

// request sends a request; headers are names, each followed by its value.
func (d *server) request(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	return d.send(t, method, path, reader, headers...)
}

func (d *server) send(t *testing.T, method, path string, body io.Reader, headers ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	req.Host = req.Header.Get("Host")
	return roundTrip(t, cmp.Or(d.transport, ownTransport), req)
}

// roundTrip follows no redirect and undoes no compression.
func roundTrip(t *testing.T, transport http.RoundTripper, req *http.Request) answer {
	t.Helper()
	if req.Header.Get("Accept-Encoding") == "" {
		req.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	return answer{resp, string(body)}
}

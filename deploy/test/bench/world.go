package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
	"github.com/pforte/pforte/pkg/freeport"
)

const (
	loginPath = "/api/v1/auth/login"
	mePath    = "/api/v1/auth/me"
	usersPath = "/api/v1/auth/users"
)

// manyAttempts is a limit that no load reaches.
const manyAttempts = "1000000"

// world is one set of running programs.
type world struct {
	*fixture.World
	suite *suite
	// peers are the addresses of the servers that are compared with.
	peers map[string]string
	// credentials are the administrator's everywhere, as JSON.
	credentials string
	password    string
}

// open returns a world in which nothing runs yet, and the function that ends it.
func (s *suite) open(ctx context.Context) (*world, func(), error) {
	folder, err := os.MkdirTemp(s.scratch, "world-")
	if err != nil {
		return nil, nil, err
	}
	base, err := fixture.New(ctx, s.bin, folder)
	if err != nil {
		return nil, nil, err
	}
	password, err := base.AdminPassword()
	if err != nil {
		return nil, nil, err
	}
	credentials := fmt.Sprintf(`{"username":%q,"password":%q}`, layout.AdminName, password)
	return &world{World: base, suite: s, peers: map[string]string{}, credentials: credentials, password: password}, base.Stop, nil
}

// start starts programs one after the other.
func (w *world) start(ctx context.Context, programs ...stack.Program) error {
	for _, program := range programs {
		if err := w.Start(ctx, program); err != nil {
			return err
		}
	}
	return nil
}

// redis is redis-server, which must be installed and writes nothing to the disk
// here.
func (w *world) redis() stack.Program {
	program := w.RedisServer("redis-server")
	if path, err := exec.LookPath("redis-server"); err == nil {
		program.Path = path
	}
	program.Args = append(program.Args, "--appendonly", "no")
	return program
}

// proxy is ours; it is ready when it listens, because some worlds have one
// service only.
func (w *world) proxy() stack.Program {
	program := w.Proxy()
	program.Ready = stack.Listening(w.Addresses.Proxy)
	return program
}

// recordedNode is a node of one block of Base.
func (w *world) recordedNode() stack.Program {
	return stack.Program{
		Name: "node", Path: filepath.Join(w.Bin, "recordednode"),
		Args: []string{
			"--block", filepath.Join(w.suite.top, "pkg/receipt/testdata/blocks/base-mainnet-2000000.json.gz"),
			"--listen", w.Chain, "--latest", "2000100", "--finalized", "2000050",
		},
		Ready: stack.Listening(w.Chain),
	}
}

// peer starts a server that is compared with, and notes its address. Its
// settings get the port as PORT and the address as ADDR.
func (w *world) peer(ctx context.Context, name, path string, args []string, settings map[string]string) error {
	addrs, err := freeport.Addrs(ctx, 1)
	if err != nil {
		return err
	}
	w.peers[name] = addrs[0]
	env := []string{"ADDR=" + addrs[0], "PORT=" + portOf(addrs[0]), "HOME=" + w.State}
	for setting, value := range settings {
		env = append(env, setting+"="+value)
	}
	return w.start(ctx, stack.Program{Name: name, Path: path, Args: args, Env: env, Ready: stack.Listening(addrs[0])})
}

// node starts a script of the folder peers.
func (w *world) node(ctx context.Context, name, script string, settings map[string]string) error {
	path, err := exec.LookPath("node")
	if err != nil {
		return fmt.Errorf("node is not installed: %w", err)
	}
	settings["NODE_ENV"] = "production"
	return w.peer(ctx, name, path, []string{filepath.Join(w.suite.top, "deploy/test/bench/peers", script)}, settings)
}

// bareCaddy starts the proxy's program with nothing but reverse_proxy before a
// server: what Caddy costs.
func (w *world) bareCaddy(ctx context.Context, name, upstream string) error {
	file := filepath.Join(w.State, name+".Caddyfile")
	text := "{\n\tadmin off\n\tauto_https off\n}\nhttp://:{$PORT} {\n\treverse_proxy " + upstream + "\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return w.peer(ctx, name, filepath.Join(w.Bin, "pforte-proxy"), []string{"run", "--config", file, "--adapter", "caddyfile"}, nil)
}

// call makes one request and decodes its answer into v, if there is one.
func call(ctx context.Context, addr, method, path, body string, header http.Header, v any) (http.Header, error) {
	request, err := client.NewRequest(ctx, method, "http://"+addr+path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, header)
	answer := client.Do(nil, request)
	if answer.Err != nil || answer.Status >= http.StatusBadRequest && answer.Status != http.StatusPaymentRequired {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, answer, answer.Body)
	}
	if v != nil {
		err = json.Unmarshal(answer.Body, v)
	}
	return answer.Header, err
}

// login returns the header of a logged-in administrator.
func (w *world) login(ctx context.Context, addr string) (http.Header, error) {
	s, answer := client.Auth{URL: "http://" + addr}.Login(ctx, layout.AdminName, w.password)
	if s == nil {
		return nil, fmt.Errorf("log in at %s: %s: %s", addr, answer, answer.Body)
	}
	return http.Header{"Cookie": {s.Cookie}, "X-Csrf-Token": {s.CSRF}}, nil
}

// me returns the requests GET /me of n sessions.
func (w *world) me(ctx context.Context, addr string, n int) ([][]byte, error) {
	requests := make([][]byte, n)
	for i := range requests {
		header, err := w.login(ctx, addr)
		if err != nil {
			return nil, err
		}
		requests[i] = request(http.MethodGet, mePath, "", header)
	}
	return requests, nil
}

// request returns the bytes of a request.
func request(method, path, body string, header http.Header) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	_ = header.Write(&b) // into memory
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// steady is a cell that sends the same requests in every turn.
func steady(name, addr string, clients, status int, requests [][]byte, pids ...int) cell {
	return cell{name: name, pids: pids, prepare: func(_ context.Context, d time.Duration) (job, error) {
		return job{addr: addr, clients: clients, duration: d, requests: requests, status: status}, nil
	}}
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // addresses here are our own
	return port
}

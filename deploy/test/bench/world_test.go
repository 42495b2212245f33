package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/receipt"
)

const (
	loginPath = "/api/v1/auth/login"
	mePath    = "/api/v1/auth/me"
	usersPath = "/api/v1/auth/users"
	// verifyPath is where the verifier and its peer sell.
	verifyPath = "/v1/verify/base-transaction"
)

// manyAttempts is a limit that no load reaches.
const manyAttempts = "1000000000"

// vector is the evidence that is bought everywhere.
const vector = "pkg/receipt/testdata/vectors/base/response.json"

// world is one set of running programs.
type world struct {
	*suite
	*fixture.World
	// others are the addresses of the programs that are no part of the stack.
	others   map[string]string
	password string
	// visited is whether the user exists who does nothing but log in.
	visited bool
	// facilitator accepts every payment at once. It runs in this process.
	facilitator *facilitator
	// sessions are the requests GET /me of each server's sessions, by its address.
	sessions map[string][][]byte
	// bought are requests that have bought something.
	bought [][]byte
	// path is where the order buys.
	path string
}

// open returns a world in which nothing but a facilitator runs yet, whose
// programs are those in the folder bin. It ends with the section.
func (s *suite) open(bin string) *world {
	base, err := fixture.New(s.Context(), bin, s.TempDir())
	s.must(err)
	s.Cleanup(base.Stop)
	w := &world{suite: s, World: base, others: map[string]string{}, sessions: map[string][][]byte{}, facilitator: &facilitator{settled: map[string]int{}}, path: verifyPath}
	w.Extra["auth"] = map[string]string{"RATE_LIMIT_MAX_ATTEMPTS": manyAttempts} // all clients have one address
	w.Extra["verifier"] = map[string]string{
		"CHAIN_NAME": "base", "CHAIN_ID": "8453", "PAYMENT_CONFIRM": "facilitator", // whose transfers are on no chain
		"FACILITATOR_FREE_SETTLEMENTS": manyAttempts, "UNPAID_ATTEMPTS_PER_PAYER": manyAttempts, "UNPAID_ATTEMPTS_PER_ADDRESS": manyAttempts,
		"REPEAT_WINDOW": "0", // each call is sold
	}
	w.password, err = w.AdminPassword()
	s.must(err)
	return w
}

// start starts programs one after the other.
func (w *world) start(programs ...stack.Program) {
	w.Helper()
	for _, program := range programs {
		w.must(w.Start(w.Context(), program))
	}
}

// startAll starts all of Pforte, before a node with one block of Base.
func (w *world) startAll() {
	w.facilitator.serve(w)
	w.start(w.redis(), w.recordedNode(), w.Auth(), w.Verifier(), w.Proxy())
}

// redis is redis-server, which writes nothing to the disk here.
func (w *world) redis() stack.Program {
	path, err := exec.LookPath("redis-server")
	w.must(err)
	program := w.RedisServer(path)
	program.Args = append(program.Args, "--appendonly", "no")
	return program
}

// recordedNode is a node of one block of Base.
func (w *world) recordedNode() stack.Program {
	return fixture.RecordedNode(w.Layout, "node", filepath.Join(w.top, "pkg/receipt/testdata/blocks/base-mainnet-2000000.json.gz"), w.Chain, 2000100, 2000050)
}

// startOther starts a program that is no part of the stack, on a port that it gets
// as PORT, and notes its address.
func (w *world) startOther(name, path string, args []string, settings ...string) {
	addrs, err := freeport.Addrs(w.Context(), 1)
	w.must(err)
	w.others[name] = addrs[0]
	settings = append(settings, "PORT="+portOf(addrs[0]), "HOME="+w.State, "NODE_ENV=production")
	w.start(stack.Program{Name: name, Path: path, Args: args, Env: settings, Ready: stack.Listening(addrs[0])})
}

// startPeers starts the peers, and before each peer and each service the proxy's
// program with nothing but reverse_proxy: what Caddy costs.
func (w *world) startPeers() {
	node, err := exec.LookPath("node")
	w.must(err)
	scripts := filepath.Join(w.top, "deploy/test/bench/peers")
	w.startOther("express", node, []string{filepath.Join(scripts, "household.mjs")},
		"REDIS_PORT="+portOf(w.Redis), "PASSWORD="+w.password, "LIMIT="+manyAttempts)
	w.startOther("scs", filepath.Join(w.Bin, "bench-scs"), nil, "REDIS_PORT="+portOf(w.Redis), "PASSWORD="+w.password)
	w.startOther("x402", node, []string{filepath.Join(scripts, "paid.mjs")},
		"FACILITATOR_URL=http://"+w.Facilitator, "NETWORK="+layout.Network, "PAY_TO="+layout.Payee, "ANSWER="+filepath.Join(w.top, vector))
	for name, upstream := range map[string]string{
		"caddy-auth": w.Addresses.Auth, "caddy-verifier": w.Addresses.Verifier, "caddy-express": w.others["express"], "caddy-x402": w.others["x402"],
	} {
		w.startBareCaddy(name, upstream)
	}
}

// call makes one request and decodes its answer into v, if there is one.
func (w *world) call(addr, method, path, body string, header http.Header, v any) {
	w.Helper()
	request, err := client.NewRequest(w.Context(), method, "http://"+addr+path, body)
	w.must(err)
	maps.Copy(request.Header, header)
	answer := client.Do(nil, request)
	if answer.Err != nil || answer.Status >= http.StatusBadRequest {
		w.Fatalf("%s %s: %s: %s", method, path, answer, answer.Body)
	}
	if v != nil {
		w.must(json.Unmarshal(answer.Body, v))
	}
}

// login returns the header of a logged-in administrator.
func (w *world) login(addr string) (http.Header, error) {
	s, answer := client.Auth{URL: "http://" + addr}.Login(w.Context(), layout.AdminName, w.password)
	if s == nil {
		return nil, fmt.Errorf("log in at %s: %s: %s", addr, answer, answer.Body)
	}
	return http.Header{"Cookie": {s.Cookie}, "X-Csrf-Token": {s.CSRF}}, nil
}

// visitor returns the name of the user who does nothing but log in, with the
// administrator's password: so many logins end the older ones of the same user, and
// those are other clients' sessions.
func (w *world) visitor() string {
	const name = "visitor"
	if !w.visited {
		admin, err := w.login(w.Addresses.Auth)
		w.must(err)
		w.call(w.Addresses.Auth, http.MethodPost, usersPath, fmt.Sprintf(`{"username":%q,"display_name":%q,"password":%q}`, name, name, w.password), admin, nil)
		w.visited = true
	}
	return name
}

// me returns requests GET /me, each of another session. A session is the same
// behind every proxy.
func (w *world) me(addr string) [][]byte {
	for name, other := range w.others {
		if behind, found := strings.CutPrefix(name, "caddy-"); found && other == addr {
			addr = cmp.Or(w.others[behind], w.Addresses.Auth)
		}
	}
	if addr == w.Addresses.Proxy {
		addr = w.Addresses.Auth
	}
	if w.sessions[addr] != nil {
		return w.sessions[addr]
	}
	requests, faults := make([][]byte, w.suite.sessions), make([]error, w.suite.sessions)
	var all sync.WaitGroup
	for client := range loggingIn {
		all.Go(func() {
			for i := client; i < len(requests); i += loggingIn {
				var header http.Header
				header, faults[i] = w.login(addr)
				requests[i] = request(http.MethodGet, mePath, "", header)
			}
		})
	}
	all.Wait()
	w.must(errors.Join(faults...))
	w.sessions[addr] = requests
	return requests
}

// readOrder returns the body of a call that buys the evidence in vector.
func (s *suite) readOrder() string {
	text, err := os.ReadFile(filepath.Join(s.top, vector))
	s.must(err)
	document, err := receipt.Parse(text)
	s.must(err)
	wanted := document.Receipt.Request
	body, err := json.Marshal(map[string]any{"transactionHash": wanted.TransactionHash, "expectations": wanted.Expectations})
	s.must(err)
	return string(body)
}

// command runs a command and returns its output.
func command(ctx context.Context, program stack.Program, words ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program.Path, words...)
	cmd.Env = program.Env
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s%s", filepath.Base(program.Path), strings.Join(words, " "), err, out, &faults)
	}
	return out, err
}

// run runs a command and returns its output.
func (s *suite) run(program stack.Program, words ...string) []byte {
	s.Helper()
	out, err := command(s.Context(), program, words...)
	s.must(err)
	return out
}

// request returns the bytes of a request.
func request(method, path, body string, header http.Header) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	_ = header.Write(&b) // into memory
	if body != "" {
		if header.Get("Content-Type") == "" {
			b.WriteString("Content-Type: application/json\r\n")
		}
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

func (w *world) pids(programs ...string) []int {
	pids := make([]int, len(programs))
	for i, program := range programs {
		pids[i] = w.Programs.Pid(program)
	}
	return pids
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // addresses here are our own
	return port
}

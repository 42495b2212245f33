package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// launch is a run of what `make up` runs after the build.
type launch struct {
	t      *testing.T
	cmd    *exec.Cmd
	env    []string
	bin    string
	state  string
	mu     sync.Mutex
	output bytes.Buffer
}

func (l *launch) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.output.Write(p)
}

func (l *launch) printed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.output.String()
}

// ports returns a setting for each port of the local stack.
func ports(t *testing.T) (env []string) {
	t.Helper()
	addresses, err := layout.FreeAddresses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range (layout.Layout{Addresses: addresses}).Ports() {
		_, number := split(port.Addr)
		env = append(env, port.Setting+"="+number)
	}
	return env
}

// up starts the local stack and waits for its screen.
func up(t *testing.T, state string, env []string) *launch {
	t.Helper()
	return upFrom(t, os.Getenv("PFORTE_BIN"), state, env)
}

// upFrom is up with the programs of a folder and further arguments.
func upFrom(t *testing.T, bin, state string, env []string, args ...string) *launch {
	t.Helper()
	l := &launch{t: t, env: env, bin: bin, state: state}
	l.cmd = exec.Command(filepath.Join(bin, "local"), append([]string{"-bin", bin, "-state", state}, args...)...)
	l.cmd.Env, l.cmd.Stdout, l.cmd.Stderr = l.env, l, l
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.cmd.Process.Kill() })
	eventually(t, "the stack is up", func(context.Context) error {
		if !strings.Contains(l.printed(), "Ctrl-C stops everything.") {
			return errors.New(l.printed())
		}
		return nil
	})
	return l
}

// end waits for the launcher's end and returns its exit code.
func (l *launch) end() int {
	l.t.Helper()
	var exit *exec.ExitError
	if err := l.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	return l.cmd.ProcessState.ExitCode()
}

// allFree fails while a program listens on a port of the stack.
func (l *launch) allFree(t *testing.T) {
	t.Helper()
	eventually(t, "the ports are free again", func(ctx context.Context) error {
		for _, setting := range l.env {
			name, number, _ := strings.Cut(setting, "=")
			if !strings.HasSuffix(name, "_PORT") {
				continue
			}
			if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+number); err == nil {
				_ = conn.Close()
				return fmt.Errorf("%s still answers", name)
			}
		}
		return nil
	})
}

// asAdmin are settings with which the first start creates an administrator.
var asAdmin = []string{"BOOTSTRAP_ADMIN_USERNAME=admin", "BOOTSTRAP_ADMIN_PASSWORD=a password of eight"}

// curl logs in by the line that the README shows.
func (l *launch) curl(t *testing.T, username, password string) {
	t.Helper()
	readme, err := os.ReadFile(top + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?s)\$ curl -i .*?/login`).FindString(string(readme))
	line = strings.NewReplacer("$ ", "", `"anna"`, `"`+username+`"`, "the password that you chose", password, "http://localhost:8080", l.origin(t)).Replace(line)
	code, out := command(t, nil, "/bin/sh", "-c", line)
	if code != 0 || !bytes.Contains(out, []byte("HTTP/1.1 200 OK")) || !bytes.Contains(out, []byte(`"username":"`+username+`"`)) {
		t.Errorf("%s\nends with %d: %s", line, code, out)
	}
}

// buysWhatIsPrinted buys the verification of the transaction that the screen shows, which is final within seconds.
func (l *launch) buysWhatIsPrinted(t *testing.T) {
	t.Helper()
	hash := regexp.MustCompile(`\n  export TRANSACTION=(0x[0-9a-f]{64})\n`).FindStringSubmatch(l.printed())
	if hash == nil {
		t.Fatalf("no transaction is printed:\n%s", l.printed())
	}
	code, out := command(t, nil, filepath.Join(l.bin, "agent"), "--url", l.origin(t), "--state", t.TempDir(), "--tx", hash[1], "--status", "success")
	if code != 0 || !bytes.Contains(out, []byte("Checked offline")) {
		t.Errorf("the purchase ends with %d: %s", code, out)
	}
}

func TestLocal_StartsStopsAndRemembers(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is not installed")
	}
	state, env := filepath.Join(t.TempDir(), "state"), append(append(ports(t), asAdmin...), "PATH="+os.Getenv("PATH"))
	first := up(t, state, env)
	first.curl(t, "admin", "a password of eight")
	code, out := command(t, first.env, filepath.Join(first.bin, "local"), "-bin", first.bin, "-state", state, "demo")
	paid := regexp.MustCompile(`Paid\. Transaction of the payment: (0x[0-9a-f]{64})\n`).FindSubmatch(out)
	if code != 0 || bytes.Count(out, []byte("Checked offline")) != 2 || paid == nil {
		t.Fatalf("the demo ends with %d: %s", code, out)
	}
	if !bytes.Contains(out, append([]byte("Receipt: transaction "), paid[1]...)) || !bytes.Contains(out, []byte("by the authorization 0x")) {
		t.Errorf("the demo does not prove its payment: %s", out)
	}
	proven := regexp.MustCompile(`\nLogged:    entry \d+ of localhost:\d+/v1/log/1, in a checkpoint of \d+ that 2 of 2 witnesses saw \(earliest .*\)\n` +
		`Final:     proven from your checkpoint 0x[0-9a-f]{64} \(slot \d+\)\n(  .*\n)+$`)
	if !proven.Match(out) {
		t.Errorf("the demo does not end with log and finality: %s", out)
	}
	if code, out := command(t, first.env, filepath.Join(first.bin, "local"), "-bin", first.bin, "-state", state); code != 1 || len(out) > 0 {
		t.Errorf("a second stack on the same state ends with %d: %s", code, out)
	}
	if err := first.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := first.end(); code != 0 {
		t.Errorf("a stop ends with %d: %s", code, first.printed())
	}
	first.allFree(t)

	begin := time.Now()
	second := up(t, state, env)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the second start took %v", took)
	}
	second.buysWhatIsPrinted(t)
	second.curl(t, "admin", "a password of eight") // the user of the first run
	if err := second.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second.end()
	second.allFree(t)
	if strings.Contains(second.printed(), "off: the one in") {
		t.Errorf("the second start has no log:\n%s", second.printed())
	}

	// The log's name holds the address, so it cannot go on at another one.
	third := up(t, state, append(append(ports(t), asAdmin...), "PATH="+os.Getenv("PATH")))
	if !strings.Contains(third.printed(), "log          off: the one in "+state+" has the name of another address\n") {
		t.Errorf("at another address it prints:\n%s", third.printed())
	}
	if err := third.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	third.end()
}

func TestLocal_NeedsNoRedisServer(t *testing.T) {
	l := up(t, filepath.Join(t.TempDir(), "state"), append(append(ports(t), asAdmin...), "PATH=/nonexistent"))
	if !strings.Contains(l.printed(), "redis-server is not installed, so sessions end with it") {
		t.Errorf("it does not print which Redis it is:\n%s", l.printed())
	}
	l.curl(t, "admin", "a password of eight")
	b := newBrowser(t, l.origin(t))
	for range 5 {
		b.request("POST", "/api/v1/auth/login", credentials("admin", "wrong")).want(t, 401, nil)
	}
	b.request("POST", "/api/v1/auth/login", credentials("admin", "wrong")).want(t, 429, nil)
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := l.end(); code != 0 {
		t.Errorf("a stop ends with %d: %s", code, l.printed())
	}
}

func TestLocal_HouseholdIsTheLoginAlone(t *testing.T) {
	bin, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	for _, program := range []string{"local", "auth", "pforte-proxy"} {
		if err := os.Symlink(filepath.Join(os.Getenv("PFORTE_BIN"), program), filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	env := ports(t)
	public, here := strings.Replace(env[0], "PROXY_PORT=", "http://phones-reach-it.localhost:", 1), strings.Replace(env[0], "PROXY_PORT=", "http://127.0.0.1:", 1)
	l := upFrom(t, bin, state, append(env, "PATH="+os.Getenv("PATH"), "PUBLIC_URL="+public, "SITE_ADDRESS="+public+", "+here, `ROUTES=respond /notes/ "notes"`), "--household")
	if printed := l.printed(); !strings.Contains(printed, "\n"+public+"/pforte/setup?t=") || strings.Contains(printed, "verifier") || strings.Contains(printed, "demo") {
		t.Errorf("it prints\n%s", printed)
	}
	for _, made := range []string{"receipt-key.pem", "log-key.pem", "devnet-network.json"} {
		if _, err := os.Stat(filepath.Join(state, made)); err == nil {
			t.Errorf("it makes %s", made)
		}
	}
	b := newBrowser(t, here)
	b.request("GET", "/pforte/login", "").want(t, 200, nil)
	b.request("GET", "/notes/", "").want(t, 200, nil)
	for host, want := range map[string]int{strings.TrimPrefix(public, "http://"): 200, strings.TrimPrefix(here, "http://"): 200, "elsewhere.localhost": 404} { // by SITE_ADDRESS
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, here+"/api/v1/auth/openapi.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if got := b.send(req); got.StatusCode != want {
			t.Errorf("the site at %s: %d %s", host, got.StatusCode, got.body)
		}
	}
	if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := l.end(); code != 0 {
		t.Errorf("a stop ends with %d: %s", code, l.printed())
	}
}

// origin is the proxy's address on the screen.
func (l *launch) origin(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`proxy +(http://\S+)`).FindStringSubmatch(l.printed())
	if found == nil {
		t.Fatal(l.printed())
	}
	return found[1]
}

func TestLocal_NamesATakenPortAndItsSetting(t *testing.T) {
	env := ports(t)
	taken := strings.TrimPrefix(env[2], "AUTH_PORT=")
	l, err := net.Listen("tcp", "127.0.0.1:"+taken)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	bin := os.Getenv("PFORTE_BIN")
	cmd := exec.Command(filepath.Join(bin, "local"), "-bin", bin, "-state", t.TempDir())
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	want := "port " + taken + " for auth is taken: stop what listens there, or set AUTH_PORT to another\n"
	if err == nil || string(out) != want {
		t.Errorf("got %v %q\nwant %q", err, out, want)
	}
}

func TestLocal_StopsWithTheReasonWhenAServiceDies(t *testing.T) {
	l := up(t, filepath.Join(t.TempDir(), "state"), ports(t))
	if err := syscall.Kill(l.child(t, "verifier"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := l.end(); code != 1 {
		t.Errorf("ends with %d", code)
	}
	if printed := l.printed(); !strings.Contains(printed, "verifier: ended by itself: signal: killed") || !strings.Contains(printed, "The last lines of ") {
		t.Errorf("it prints\n%s", printed)
	}
	l.allFree(t)
}

// child returns the id of the launcher's child of a name, from Linux's /proc/N/stat:
// "id (name) state parent …".
func (l *launch) child(t *testing.T, name string) int {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		stat, err := os.ReadFile(entry)
		if err != nil {
			continue // it has ended
		}
		var id, parent int
		var comm, state string
		if n, _ := fmt.Sscanf(string(stat), "%d %s %s %d", &id, &comm, &state, &parent); n == 4 && comm == "("+name+")" && parent == l.cmd.Process.Pid {
			return id
		}
	}
	t.Fatalf("the launcher has no child of the name %s", name)
	return 0
}

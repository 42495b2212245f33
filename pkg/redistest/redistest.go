package redistest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/freeport"
)

// Start starts an empty redis-server without persistence on a free port of
// 127.0.0.1 and returns its address. It is stopped when the test ends.
func Start(t testing.TB) string {
	t.Helper()
	return New(t, "--save", "", "--appendonly", "no").Addr()
}

// Server is a redis-server of a test that the test may kill, pause and start
// again.
type Server struct {
	t    testing.TB
	port string
	// bus is the port on which the nodes of a cluster talk to one another.
	bus  string
	args []string
	cmd  *exec.Cmd
	// output is what the server wrote since it was started.
	output bytes.Buffer
	// ended is closed when the server is gone.
	ended chan struct{}
	// guard kills the server when this process ends without doing so itself.
	guard *exec.Cmd
}

// New starts a redis-server with further arguments in a folder of its own.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	return launch(t, "", args...)
}

// launch starts a redis-server, with a configuration file unless it is "", on
// other ports when another process took those it was to use.
func launch(t testing.TB, file string, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not installed, and CI is set")
		}
		t.Skip("redis-server is not installed")
	}
	var failure error
	for range 3 {
		s := &Server{t: t}
		s.port, s.bus = freePorts(t)
		if file != "" {
			s.args = []string{file}
		}
		s.args = append(append(s.args, "--port", s.port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--daemonize", "no"), args...)
		if slices.Contains(args, "--cluster-enabled") {
			s.args = append(s.args, "--cluster-port", s.bus)
		}
		t.Cleanup(s.Kill)
		if failure = s.run(); failure == nil {
			return s
		}
	}
	t.Fatal(failure)
	return nil
}

// Addr is the address to connect to, host:port. It stays the same over
// restarts.
func (s *Server) Addr() string { return "127.0.0.1:" + s.port }

// Kill ends the server at once, as a loss of power would. Killing it again does
// nothing.
func (s *Server) Kill() {
	if s.guard != nil {
		_ = s.guard.Process.Kill()
		_ = s.guard.Wait() // it was killed, which is no failure
	}
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.cmd, s.guard = nil, nil
}

// Restart kills the server and starts it again, with what its persistence kept.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		s.t.Fatal(err)
	}
}

// Pause stops the server from answering while its connections stay open.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// run starts the server and waits until it answers.
func (s *Server) run() error {
	s.t.Helper()
	s.output.Reset()
	cmd := exec.CommandContext(context.Background(), "redis-server", s.args...) //nolint:gosec // a program of the machine
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                       // Ctrl-C must not reach it before the tests end
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // its output names the reason
		close(s.ended)
	}()
	s.startGuard()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
		if s.answers() {
			return nil
		}
		select {
		case <-s.ended:
			s.Kill() // the guard
			return fmt.Errorf("redis-server ended: %s", s.output.String())
		case <-time.After(25 * time.Millisecond):
		}
	}
	s.Kill()
	return fmt.Errorf("redis-server does not answer after 15 seconds: %s", s.output.String())
}

// startGuard starts a shell that waits for the end of its standard input, which
// comes when this process ends, however it ends.
func (s *Server) startGuard() {
	s.t.Helper()
	script := fmt.Sprintf("cat >/dev/null; kill -9 %d", s.cmd.Process.Pid)
	guard := exec.CommandContext(context.Background(), "/bin/sh", "-c", script) //nolint:gosec // a number of our own
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := guard.StdinPipe(); err != nil { // held by s.guard until it is killed
		s.t.Fatal(err)
	}
	if err := guard.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.guard = guard
}

// answers reports whether this server takes commands, and not another one that has
// its port. While it loads its data it answers PING with an error.
func (s *Server) answers() bool {
	if reply, err := s.Do("PING"); err != nil || reply != "PONG" {
		return false
	}
	info, err := s.Do("INFO", "server")
	return err == nil && strings.Contains(info, fmt.Sprintf("\nprocess_id:%d\r", s.cmd.Process.Pid))
}

func freePorts(t testing.TB) (port, bus string) {
	t.Helper()
	addrs, err := freeport.Addrs(context.Background(), 2)
	if err != nil {
		t.Fatal(err)
	}
	_, port = hostPort(addrs[0])
	_, bus = hostPort(addrs[1])
	return port, bus
}

package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Start starts an empty redis-server without persistence on a free port of
// 127.0.0.1 and gives its address. It is stopped when the test ends.
func Start(t testing.TB) string {
	t.Helper()
	return New(t, "--save", "", "--appendonly", "no").Addr()
}

// Server is a redis-server of a test that the test may kill, pause and start
// again.
type Server struct {
	t    testing.TB
	port string
	args []string
	cmd  *exec.Cmd
	// guard kills the server when this process ends without doing so itself.
	guard *exec.Cmd
}

// New starts a redis-server with further arguments in a folder of its own.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	return launch(t, "", args...)
}

// launch starts a redis-server, with a configuration file unless it is "".
func launch(t testing.TB, file string, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not installed, and CI is set")
		}
		t.Skip("redis-server is not installed")
	}
	s := &Server{t: t, port: freePort(t)}
	if file != "" {
		s.args = []string{file}
	}
	s.args = append(append(s.args, "--port", s.port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--daemonize", "no"), args...)
	s.run()
	t.Cleanup(s.Kill)
	return s
}

// Addr is the address to connect to, host:port. It stays the same over
// restarts.
func (s *Server) Addr() string { return "127.0.0.1:" + s.port }

// Kill ends the server at once, as a loss of power would. Killing it again does
// nothing.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	for _, cmd := range []*exec.Cmd{s.guard, s.cmd} {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed, which is no fault
	}
	s.cmd, s.guard = nil, nil
}

// Restart kills the server and starts it again, with what its persistence kept.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.run()
}

// Pause stops the server from answering while its connections stay open.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) run() {
	s.t.Helper()
	s.cmd = exec.CommandContext(context.Background(), "redis-server", s.args...) //nolint:gosec // a program of the machine
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                      // Ctrl-C must not reach it before the tests end
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.startGuard()
	for range 200 {
		if s.answers() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	s.t.Fatal("redis-server does not answer after 5 seconds")
}

// startGuard starts a shell that waits for the end of its standard input, which
// comes when this process ends, however it ends.
func (s *Server) startGuard() {
	s.t.Helper()
	script := fmt.Sprintf("cat >/dev/null; kill -9 %d", s.cmd.Process.Pid)
	s.guard = exec.CommandContext(context.Background(), "/bin/sh", "-c", script) //nolint:gosec // a number of our own
	s.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := s.guard.StdinPipe(); err != nil { // held by s.guard until it is killed
		s.t.Fatal(err)
	}
	if err := s.guard.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// answers tells whether the server takes commands: while it loads its data it
// answers with an error.
func (s *Server) answers() bool {
	reply, err := s.Ask("PING")
	return err == nil && reply == "PONG"
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

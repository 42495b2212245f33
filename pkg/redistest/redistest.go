// Package redistest starts private redis-servers for tests. It is for _test.go
// files only.
//
// Where redis-server is not installed the test is skipped; with CI set in the
// environment it fails.
package redistest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
}

// New starts a redis-server with further arguments in a folder of its own.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	return launch(t, "", args...)
}

// launch starts a redis-server, with a configuration file unless file is "". It tries up to three times,
// with other ports each time, because another process may take them before the server does.
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
		addrs, err := freeport.Addrs(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{t: t, port: strings.TrimPrefix(addrs[0], host+":"), bus: strings.TrimPrefix(addrs[1], host+":")}
		if file != "" {
			s.args = []string{file}
		}
		s.args = append(append(s.args, "--port", s.port, "--bind", host, "--dir", t.TempDir(), "--daemonize", "no"),
			args...)
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

const host = "127.0.0.1"

// Addr returns the address to connect to, host:port. It stays the same over restarts.
func (s *Server) Addr() string { return host + ":" + s.port }

// Kill ends the server at once, as a crash of it would. Killing it again does
// nothing.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.cmd = nil
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

// guarded starts a program that is killed when standard input closes, which the
// kernel does when the test process ends, however it ends.
const guarded = `exec 3<&0; (cat <&3; kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&- </dev/null`

// run starts the server and waits until it answers.
func (s *Server) run() error {
	s.t.Helper()
	s.output.Reset()
	args := append([]string{"-c", guarded, "guarded", "redis-server"}, s.args...)
	cmd := exec.CommandContext(context.Background(), "/bin/sh", args...) //nolint:gosec // a program of the machine
	// Ctrl-C must not reach it before the tests end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if _, err := cmd.StdinPipe(); err != nil { // closed when the server has ended
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // its output names the reason
		close(s.ended)
	}()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
		if s.answers() {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("redis-server ended: %s", s.output.String())
		case <-time.After(25 * time.Millisecond):
		}
	}
	s.Kill()
	return fmt.Errorf("redis-server does not answer after 15 seconds: %s", s.output.String())
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

// Do sends one command and returns the reply: its text, or for an array one text a line. A reply
// that refuses the command is an error.
func (s *Server) Do(words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	words = append([]string{"-e", "-p", s.port}, words...)
	out, err := exec.CommandContext(ctx, "redis-cli", words...).CombinedOutput() //nolint:gosec // as above
	reply := strings.TrimSuffix(string(out), "\n")
	if err != nil {
		return "", errors.New(cmp.Or(reply, err.Error()))
	}
	return reply, nil
}

const slots = 16384

// StartCluster starts a Redis Cluster of n masters that share the slots, and
// returns their addresses.
func StartCluster(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for _, node := range startCluster(t, n) {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

func newNode(t testing.TB, args ...string) *Server {
	t.Helper()
	return New(t, append(args, "--cluster-enabled", "yes", "--save", "")...)
}

func startCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	nodes := make([]*Server, n)
	for i := range nodes {
		nodes[i] = newNode(t, args...)
		first, last := i*slots/n, (i+1)*slots/n-1
		nodes[i].must("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(first), fmt.Sprint(last))
		nodes[i].must("CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for _, node := range nodes[1:] {
		nodes[0].must("CLUSTER", "MEET", host, node.port, node.bus)
	}
	for _, node := range nodes {
		eventually(t, "a node of the cluster knows the others", func() bool {
			info, err := node.Do("CLUSTER", "INFO")
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info,
				fmt.Sprintf("cluster_size:%d\r", n))
		})
	}
	return nodes
}

// StartClusterPair starts a Cluster of three masters of which the first has a replica that
// takes over when the master is silent for the given time. addrs are those of the masters.
func StartClusterPair(t testing.TB, silent time.Duration) (addrs []string, first *Server) {
	t.Helper()
	timeout := []string{"--cluster-node-timeout", fmt.Sprint(silent.Milliseconds()), "--repl-diskless-sync-delay", "0"}
	nodes := startCluster(t, 3, timeout...)
	replica := newNode(t, timeout...)
	nodes[0].must("CLUSTER", "MEET", host, replica.port, replica.bus)
	id, err := nodes[0].Do("CLUSTER", "MYID")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica follows", func() bool {
		if _, err := replica.Do("CLUSTER", "REPLICATE", id); err != nil {
			return false
		}
		info, err := replica.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	for _, node := range nodes {
		addrs = append(addrs, node.Addr())
		eventually(t, "a node knows the replica", func() bool {
			known, err := node.Do("CLUSTER", "REPLICAS", id)
			return err == nil && strings.Contains(known, ":"+replica.port+"@")
		})
	}
	return addrs, nodes[0]
}

// Master is the name under which Sentinels know the master.
const Master = "home"

// Watched is a master and its replica, watched by Sentinels.
type Watched struct {
	Master, Replica *Server
	// Sentinels are the addresses of the Sentinels.
	Sentinels []string
	sentinels []*Server
}

// StartWatched starts a master, a replica that has its data, and three Sentinels
// of which two must agree that the master is away; for that it has to be silent
// for the given time.
func StartWatched(t testing.TB, silent time.Duration) *Watched {
	t.Helper()
	options := []string{"--save", "", "--repl-diskless-sync-delay", "0"}
	w := &Watched{Master: New(t, options...)}
	w.Replica = New(t, append(options, "--replicaof", host, w.Master.port)...)
	eventually(t, "the replica follows", func() bool {
		info, err := w.Replica.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	for range 3 {
		sentinel := newSentinel(t, w.Master.port, silent)
		w.sentinels = append(w.sentinels, sentinel)
		w.Sentinels = append(w.Sentinels, sentinel.Addr())
	}
	for _, sentinel := range w.sentinels {
		eventually(t, "a Sentinel knows the replica and the others", func() bool {
			known, err := sentinel.Do("SENTINEL", "MASTER", Master)
			return err == nil && strings.Contains(known, "\nnum-slaves\n1\n") && strings.Contains(known,
				"\nnum-other-sentinels\n2\n")
		})
	}
	return w
}

// TakenOver reports whether all Sentinels name the replica as the master.
func (w *Watched) TakenOver() bool {
	for _, sentinel := range w.sentinels {
		if addr, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", Master); err != nil || addr != host+"\n"+
			w.Replica.port {
			return false
		}
	}
	return true
}

// newSentinel starts a Sentinel, which writes its state into its configuration file.
func newSentinel(t testing.TB, port string, silent time.Duration) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	config := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s "+
		"%[4]d\nsentinel failover-timeout %[1]s 2000\n",
		Master, host, port, silent.Milliseconds())
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return launch(t, file, "--sentinel")
}

// Replicate waits until the server's replica has all that was written before.
func (s *Server) Replicate() {
	s.t.Helper()
	written := int64(-1)
	eventually(s.t, "the replica has what was written", func() bool {
		info, err := s.Do("INFO", "replication")
		if err != nil {
			return false
		}
		if written < 0 {
			written = number(info, "master_repl_offset:")
		}
		return written >= 0 && number(info, ",offset=") >= written
	})
}

// number returns the number that follows a name in a text, -1 when there is none.
func number(text, name string) int64 {
	_, after, _ := strings.Cut(text, name)
	digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
	n, err := strconv.ParseInt(after[:digits], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (s *Server) must(words ...string) {
	s.t.Helper()
	if _, err := s.Do(words...); err != nil {
		s.t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
}

// eventually waits for at most 20 seconds until holds returns true, and else fails the test.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(25 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("%s: not after 20 seconds", what)
}

package sqldbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pforte/pforte/pkg/freeport"
)

// server is a private Postgres. It runs as long as its lifeline is open.
type server struct {
	port     string
	dir      string
	lifeline io.Closer
}

// start starts Postgres, and again when another process took the port before
// Postgres listened on it. It returns nil where Postgres is not installed.
func start() (started *server, err error) {
	for range 3 {
		if started, err = try(); !errors.Is(err, errPortTaken) {
			return started, err
		}
		_ = started.lifeline.Close()
	}
	return nil, err
}

var errPortTaken = errors.New("another process listens on the port")

// try runs initdb and postgres in a temporary folder. The server is a child that
// the kernel stops when this process ends, and a watching shell removes its folder.
func try() (*server, error) {
	bin := find()
	if bin == "" {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "pforte-postgres-")
	if err != nil {
		return nil, err
	}
	attributes, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := run(attributes, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8"); err != nil {
		return nil, err
	}
	addrs, err := freeport.Addrs(context.Background(), 1)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	lifeline, err := launch(attributes, dir, filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200")
	if err != nil {
		return nil, err
	}
	started := &server{port: port, dir: dir, lifeline: lifeline}
	return started, started.wait()
}

// find returns the folder of the newest installed Postgres, or "".
func find() string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real)
		}
	}
	return ""
}

// unprivileged makes root start Postgres, which refuses to run as root, as the
// user postgres (or nobody), and makes that user the owner of the folder.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{}
	if os.Getuid() != 0 {
		return attributes, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(dir, int(uid), int(gid))
}

func run(attributes *syscall.SysProcAttr, name string, args ...string) error {
	cmd := exec.CommandContext(context.Background(), name, args...) //nolint:gosec // a program of the machine
	cmd.SysProcAttr = attributes
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	return nil
}

// watch runs Postgres and ends it when standard input closes, which the kernel
// does when the test process ends, however it ends.
const watch = `dir=$1; shift; "$@" >"$dir/log" 2>&1 </dev/null & pid=$!; cat >/dev/null; kill -QUIT $pid; wait $pid; rm -rf "$dir"`

func launch(attributes *syscall.SysProcAttr, dir, name string, args ...string) (io.Closer, error) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", append([]string{"-c", watch, "watch", dir, name}, args...)...) //nolint:gosec // as above
	own := *attributes
	own.Setpgid = true // Ctrl-C at the terminal must not reach it before the tests end
	cmd.SysProcAttr = &own
	cmd.Dir = "/"
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return lifeline, cmd.Start()
}

func (s *server) wait() error {
	for range 300 {
		if log, err := os.ReadFile(filepath.Join(s.dir, "log")); err == nil && strings.Contains(string(log), "could not create any TCP/IP sockets") {
			return errPortTaken
		}
		if s.answers() {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("it does not answer after 15 seconds")
}

package sqldbtest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/pforte/pforte/pkg/freeport"
)

// URLs returns the URL of a fresh, empty database for each backend: "sqlite"
// always, "postgres" where it is installed.
func URLs(t testing.TB) map[string]string {
	t.Helper()
	urls := map[string]string{"sqlite": SQLite(t)}
	if u := Postgres(t); u != "" {
		urls["postgres"] = u
	}
	return urls
}

// Each runs a test with each of URLs.
func Each(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for backend, url := range URLs(t) {
		t.Run(backend, func(t *testing.T) { test(t, url) })
	}
}

// Another returns the URL of one more fresh, empty database, of the backend of url.
func Another(t testing.TB, url string) string {
	t.Helper()
	if strings.HasPrefix(url, "sqlite:") {
		return SQLite(t)
	}
	return Postgres(t)
}

// SQLite returns the URL of a SQLite file that does not exist yet.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "test.db")
}

var (
	shared    = sync.OnceValues(start)
	databases atomic.Int64
)

// Postgres returns the URL of an empty database that is dropped after the test,
// or "" where Postgres is not installed and CI is not set.
func Postgres(t testing.TB) string {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatalf("start Postgres: %v", err)
	}
	if server == nil {
		if os.Getenv("CI") != "" {
			t.Fatal("Postgres is not installed, and CI is set")
		}
		t.Log("Postgres is not installed: this backend is skipped")
		return ""
	}
	name := fmt.Sprintf("test_%d", databases.Add(1))
	server.exec(t, "CREATE DATABASE "+name+server.strategy)
	t.Cleanup(func() { server.exec(t, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return server.url(name)
}

// server is a private Postgres. It runs as long as its lifeline is open.
type server struct {
	addr     string
	lifeline io.Closer
	db       *sql.DB // the database postgres
	strategy string  // of CREATE DATABASE: since 15 it can copy files, in a third of the time
}

func (s *server) url(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: s.addr, Path: database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

func (s *server) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := s.db.ExecContext(context.Background(), statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// start starts Postgres, in at most three tries, because another process may take the port
// before Postgres listens on it. It returns nil where Postgres is not installed.
func start() (started *server, err error) {
	programs := find()
	if programs == "" {
		return nil, nil
	}
	for range 3 {
		if started, err = run(programs, script, ""); err == nil {
			return started, nil
		}
	}
	return nil, err
}

// connect connects to a Postgres that has just started.
func connect(addr string, lifeline io.Closer) (*server, error) {
	s := &server{addr: addr, lifeline: lifeline}
	var err error
	if s.db, err = sql.Open("pgx", s.url("postgres")); err != nil {
		return nil, err
	}
	var version int
	row := s.db.QueryRowContext(context.Background(), "SELECT current_setting('server_version_num')::int")
	if err := row.Scan(&version); err != nil {
		return nil, err
	}
	if version >= 15_00_00 {
		s.strategy = " STRATEGY file_copy"
	}
	return s, nil
}

// find returns the folder of the programs of Postgres, of several versions the last by name, or "".
func find() string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real)
		}
	}
	return ""
}

// A script runs Postgres in a folder of its own until standard input closes, which the kernel
// does when the test process ends, however it ends. It prints "ready" once Postgres takes
// connections, else the log. The folder is in memory where that has a gigabyte left: on a disk
// a new database takes the kernel a tenth of a second.
const (
	begin = `PATH=$1:$PATH port=$2
left=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
[ "${left:-0}" -gt 1000000 ] && in=/dev/shm || in=/tmp
dir=$(mktemp -d $in/pforte-postgres-XXXXXX) &&
`
	end = `pg_ctl -D "$dir/data" -l "$dir/log" -w start >/dev/null -o "-p $port -c listen_addresses=127.0.0.1 \
  -c unix_socket_directories= -c fsync=off -c max_connections=200 -c max_wal_size=128MB \
  -c shared_buffers=16MB" && echo ready || cat "$dir/log"
cat >/dev/null
pg_ctl -D "$dir/data" -m immediate stop >/dev/null 2>&1; rm -rf "$dir"`
)

// script runs a new, empty Postgres.
const script = begin +
	`initdb -D "$dir/data" -U postgres -A trust -E UTF8 --no-sync --locale=C.UTF-8 >"$dir/log" 2>&1 &&
` + end

// run runs a script, for root as the user postgres: Postgres refuses to run as root.
func run(programs, script, from string) (*server, error) {
	addrs, err := freeport.Addrs(context.Background(), 1)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	args := []string{"/bin/sh", "-c", script, "postgres", programs, port, from}
	if os.Getuid() == 0 {
		args = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}, args...)
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...) //nolint:gosec // programs of the machine
	cmd.Dir = "/"
	// Ctrl-C at the terminal must not reach it before the tests end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(output)
	first, err := reader.ReadString('\n')
	if first == "ready\n" {
		s, err := connect(addrs[0], lifeline)
		if err != nil {
			_ = lifeline.Close()
		}
		return s, err
	}
	_ = lifeline.Close()
	rest, readErr := io.ReadAll(reader)
	return nil, errors.Join(fmt.Errorf("%s%s", first, rest), err, readErr, cmd.Wait())
}

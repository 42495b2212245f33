package sqldbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
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
	server.exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { server.exec(t, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return server.url(name)
}

func (s *server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: "127.0.0.1:" + s.port, Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}

func (s *server) exec(t testing.TB, statement string) {
	t.Helper()
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// answers reports whether this server answers, and not another one on its port.
func (s *server) answers() bool {
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return false
	}
	defer func() { _ = db.Close() }()
	var folder string
	err = db.QueryRowContext(context.Background(), "SHOW data_directory").Scan(&folder)
	return err == nil && folder == filepath.Join(s.dir, "data")
}

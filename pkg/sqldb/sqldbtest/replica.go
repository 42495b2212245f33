package sqldbtest

import (
	"context"
	"database/sql"
	"net/url"
	"testing"
	"time"
)

// replicaScript runs a replica of the Postgres at $3, which it follows.
const replicaScript = begin +
	`pg_basebackup -D "$dir/data" -R --no-sync -c fast -X stream -d "$3" >"$dir/log" 2>&1 &&
` + end

// Replica is a second Postgres that follows that of a test database, whose commits do not wait
// for it (asynchronous streaming replication), until it is detached.
type Replica struct {
	*server
	testing.TB
	primary string // URL of the database
}

// NewReplica starts a replica of the Postgres of a database; nil where databaseURL is "".
func NewReplica(t testing.TB, databaseURL string) *Replica {
	t.Helper()
	if databaseURL == "" {
		return nil
	}
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "postgres"
	r := &Replica{TB: t, primary: databaseURL}
	if r.server, err = run(find(), replicaScript, u.String()); err != nil {
		t.Fatalf("start a replica of Postgres: %v", err)
	}
	t.Cleanup(func() { _ = r.lifeline.Close() })
	return r
}

// Detach waits until the replica has all that the primary has on its disk, and ends its
// following: what is committed later it lacks.
func (r *Replica) Detach() {
	r.Helper()
	db, err := sql.Open("pgx", r.primary)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var wanted string
	r.query(db, "SELECT pg_current_wal_flush_lsn()", &wanted)
	r.wait("SELECT pg_last_wal_replay_lsn() >= '" + wanted + "'::pg_lsn")
	r.exec(r.TB, "ALTER SYSTEM SET primary_conninfo = ''")
	r.exec(r.TB, "SELECT pg_reload_conf()")
	r.wait("SELECT NOT EXISTS (SELECT 1 FROM pg_stat_wal_receiver)")
}

// Promote makes the detached replica a primary, and returns the URL of the database on it.
func (r *Replica) Promote() string {
	r.Helper()
	r.exec(r.TB, "SELECT pg_promote()")
	r.wait("SELECT NOT pg_is_in_recovery()")
	u, err := url.Parse(r.primary)
	if err != nil {
		r.Fatal(err)
	}
	u.Host = r.addr
	return u.String()
}

// wait waits until a query on the replica returns true.
func (r *Replica) wait(query string) {
	r.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var holds bool
		if r.query(r.db, query, &holds); holds {
			return
		}
		if time.Now().After(until) {
			r.Fatalf("on the replica, this does not come: %s", query)
		}
	}
}

func (r *Replica) query(db *sql.DB, query string, to any) {
	r.Helper()
	if err := db.QueryRowContext(context.Background(), query).Scan(to); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
}

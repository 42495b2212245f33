package sqlstore_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"

	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

func TestStore_OnSQLite(t *testing.T)   { onBoth(t, sqldbtest.SQLite) }
func TestStore_OnPostgres(t *testing.T) { onBoth(t, sqldbtest.Postgres) }

// onBoth runs both suites, each test on a fresh database that two processes
// have opened.
func onBoth(t *testing.T, fresh func(testing.TB) string) {
	both := func(t *testing.T, now func() time.Time) []*sqlstore.Stores {
		url := fresh(t)
		if url == "" {
			t.Skip("not installed")
		}
		return []*sqlstore.Stores{sqlstore.New(open(t, url), now, nil), sqlstore.New(open(t, url), now, nil)}
	}
	t.Run("meaning", func(t *testing.T) { testMeaning(t, both) })
	t.Run("at once", func(t *testing.T) { testConcurrency(t, both) })
}

func open(t testing.TB, url string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url, sqlstore.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// An earlier version recorded changes of role too.
func TestUser_AChangeOfRoleIsNotPending(t *testing.T) {
	db := open(t, sqldbtest.SQLite(t))
	if _, err := db.Writer.ExecContext(t.Context(), `INSERT INTO pending_revocations (user_id, kind, keep_session, recorded_at) VALUES (1, 'role', '', 1)`); err != nil {
		t.Fatal(err)
	}
	pending, err := sqlstore.New(db, time.Now, nil).Users.PendingRevocations(t.Context(), time.Now(), 0)
	if err != nil || len(pending) > 0 {
		t.Errorf("got %+v, %v", pending, err)
	}
}

// TestFormerName_OfEarlierDeletionsIsFromTheAudit has a database of the release before, and then of this one.
func TestFormerName_OfEarlierDeletionsIsFromTheAudit(t *testing.T) {
	for dialect, fresh := range map[string]func(testing.TB) string{"sqlite": sqldbtest.SQLite, "postgres": sqldbtest.Postgres} {
		url := fresh(t)
		if url == "" {
			continue
		}
		before := fstest.MapFS{}
		files := must(fs.Glob(sqlstore.Migrations, "migrations/"+dialect+"/0000[1-6]_*.sql"))(t)
		for _, name := range files {
			before[name] = &fstest.MapFile{Data: must(fs.ReadFile(sqlstore.Migrations, name))(t)}
		}
		db := must(sqldb.Open(t.Context(), url, before))(t)
		for _, row := range []string{`'user_deleted', 'Lena'`, `'user_deleted', 'lena'`, `'user_created', 'otto'`, `'user_deleted', ''`} {
			must(db.Writer.ExecContext(t.Context(), `INSERT INTO audit (at, actor_kind, event, subject_name) VALUES (1, 'operator', `+row+`)`))(t)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		store := sqlstore.New(open(t, url), time.Now, nil)
		for name, want := range map[string]error{"LENA": user.ErrUsernameFormer, "otto": nil, "": nil} {
			if err := store.Users.CheckFormer(t.Context(), name); !errors.Is(err, want) {
				t.Errorf("%s, %q: %v", dialect, name, err)
			}
		}
	}
}

func TestPlan_ReadersUseAnIndex(t *testing.T) {
	db := open(t, sqldbtest.SQLite(t))
	for _, query := range []string{
		`SELECT id FROM users WHERE lower(username) = 'anna' AND username = 'anna'`,
		`SELECT id FROM users WHERE role = 'admin' ORDER BY id`,
	} {
		var id, parent, unused int
		var plan string
		row := db.Reader.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN "+query)
		if err := row.Scan(&id, &parent, &unused, &plan); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, "INDEX users_") {
			t.Errorf("%s: %s", query, plan)
		}
	}
}

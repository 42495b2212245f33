package sqlstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// events returns the names of the recorded events with their actor and subject.
func events(t *testing.T, db *sqldb.DB) (all []string) {
	t.Helper()
	rows, err := db.Reader.QueryContext(t.Context(), `SELECT event || ' ' || actor_name || ' ' || subject_name FROM audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEveryChangeOfAUserIsRecordedWithIt also checks that a change that fails leaves no row.
func TestEveryChangeOfAUserIsRecordedWithIt(t *testing.T) {
	for name, fresh := range map[string]func(testing.TB) string{"SQLite": sqldbtest.SQLite, "Postgres": sqldbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			url := fresh(t)
			if url == "" {
				t.Skip("not installed")
			}
			db := open(t, url)
			store := sqlstore.New(db, time.Now)
			ctx := audit.With(t.Context(), audit.Actor{Kind: audit.User, ID: 1, Name: "anna"})
			anna := must(store.Create(ctx, user.New{Username: "anna", Role: user.Admin}, user.Operator))(t)
			otto := must(store.Create(ctx, user.New{Username: "otto", Role: user.Member}, anna.ID))(t)
			for _, change := range []func(context.Context) error{
				func(ctx context.Context) error {
					_, err := store.SetPasswordHash(ctx, otto.ID, "", "new", "")
					return err
				},
				func(ctx context.Context) error { _, err := store.ResetPassword(ctx, otto.ID, "newer"); return err },
				func(ctx context.Context) error { _, err := store.EndSessions(ctx, otto.ID); return err },
				func(ctx context.Context) error { return store.SetRole(ctx, otto.ID, user.Admin) },
				func(ctx context.Context) error { _, err := store.Delete(ctx, otto.ID, anna.ID); return err },
			} {
				if err := change(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := store.Delete(ctx, anna.ID, anna.ID); err == nil {
				t.Error("the last admin was deleted")
			}
			want := []string{
				"user_created anna anna", "user_created anna otto", "password_changed anna otto", "password_reset anna otto",
				"sessions_ended anna otto", "role_changed anna otto", "user_deleted anna otto",
			}
			if got := events(t, db); !slices.Equal(got, want) {
				t.Errorf("recorded %q, want %q", got, want)
			}
		})
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

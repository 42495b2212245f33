package sqldbtest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestReplica_LacksWhatWasCommittedAfterItsDetach(t *testing.T) {
	primary := sqldbtest.Postgres(t)
	replica := sqldbtest.NewReplica(t, primary)
	if replica == nil {
		t.Skip("Postgres is not installed")
	}
	exec := func(statement string) {
		t.Helper()
		db, err := sql.Open("pgx", primary)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE things (n INTEGER)")
	exec("INSERT INTO things VALUES (1)")
	replica.Detach()
	exec("INSERT INTO things VALUES (2)")
	db, err := sql.Open("pgx", replica.Promote())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO things VALUES (4)"); err != nil {
		t.Fatal(err)
	}
	var sum int
	if err := db.QueryRowContext(t.Context(), "SELECT sum(n) FROM things").Scan(&sum); err != nil || sum != 5 {
		t.Errorf("the sum is %d, %v", sum, err)
	}
}

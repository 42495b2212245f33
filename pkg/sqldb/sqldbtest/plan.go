package sqldbtest

import (
	"context"
	"database/sql"
	"strings"
	"testing"
)

// Plan carries out a statement that begins with EXPLAIN, and returns what it says of each step: the last column of
// each row, on a line of its own.
func Plan(t testing.TB, from interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, explain string, args ...any,
) string {
	t.Helper()
	rows, err := from.QueryContext(context.Background(), explain, args...)
	if err != nil {
		t.Fatalf("%s: %v", explain, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		var step string
		row := make([]any, len(columns))
		for i := range row {
			row[i] = new(any)
		}
		row[len(row)-1] = &step
		if err := rows.Scan(row...); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(step + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// PreparedPlan returns the plan that a connection to Postgres has for a statement, whatever its arguments. Its
// placeholders are $1, $2 and so on, each once. The connection must have plan_cache_mode = force_generic_plan.
func PreparedPlan(t testing.TB, conn *sql.Conn, statement string) string {
	t.Helper()
	run := func(command string) {
		t.Helper()
		if _, err := conn.ExecContext(context.Background(), command); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	run("PREPARE planned AS " + statement)
	defer run("DEALLOCATE planned")
	execute := "EXPLAIN EXECUTE planned"
	if params := strings.Count(statement, "$"); params > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ") + ")"
	}
	return Plan(t, conn, execute)
}

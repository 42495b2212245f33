package logsql

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

func open(t *testing.T, url string) *Store {
	t.Helper()
	l, err := ledger.Open(t.Context(), url, ledger.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return New(Options{DB: l.DB(), Now: time.Now})
}

// ofLog are the queries of the log of receipts, which may have millions of entries, and a
// queue as long while it is frozen.
func ofLog() map[string][]any {
	return map[string][]any{
		indexSQL: {1, []byte{}}, sequenceSQL: {254, 1000}, queuedSQL: {[]byte{}}, storedSQL: {1, 1, 1000},
		dequeueSQL + "IN (1,2,3)": nil, hashesSQL + "IN (1,2,3)": {1},
		entriesSQL: {1, 0, 256}, loggedSQL: {1, 0, 1000}, publishedSQL: {1},
	}
}

func TestPlan_NoQueryReadsAllOfTheLog(t *testing.T) {
	l := open(t, sqldbtest.SQLite(t))
	for query, args := range ofLog() {
		plan := sqldbtest.Plan(t, l.db.Reader, "EXPLAIN QUERY PLAN "+query, args...)
		// In the order of the numbers the first ones are read, and no others.
		if query == sequenceSQL {
			plan = strings.Replace(plan, "SCAN log_queue", "", 1)
		}
		if strings.Contains(plan, "SCAN log_") || strings.Contains(plan, "SCAN answers") || strings.Contains(plan, "SCAN payments") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s\nis carried out by\n%s", query, plan)
		}
	}
}

func TestPlan_NoQueryReadsAllOfTheLogOnPostgres(t *testing.T) {
	url := sqldbtest.Postgres(t)
	if url == "" {
		t.Skip("not installed")
	}
	l, ctx := open(t, url), context.Background()
	conn, err := l.db.Reader.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, statement := range []string{
		`INSERT INTO payments (network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource,
			amount, pay_to, valid_before, month, claimed, changed, check_at, client)
			SELECT 'n', 'a', 'p', i, 'settled', 'o', 1, '', '', '', '', '1', '', 1, '2026-11', i, i, NULL, 'c' FROM generate_series(1, 20000) AS i`,
		"INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, '' FROM payments",
		"INSERT INTO log_queue (leaf, entry, queued, source) SELECT sha256(i::text::bytea), sha256(i::text::bytea), 1, i FROM generate_series(1, 20000) AS i",
		"INSERT INTO log_entries (log, idx, leaf, entry, source, placed) SELECT 1, i, sha256(i::text::bytea), sha256(i::text::bytea), i, 1 FROM generate_series(1, 20000) AS i",
		"INSERT INTO log_hashes (log, id, hash) SELECT 1, i, sha256(i::text::bytea) FROM generate_series(1, 40000) AS i",
		"ANALYZE",
		"SET plan_cache_mode = force_generic_plan", // as for statements that are prepared
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	queries := ofLog()
	queries[knownSQL] = nil
	queries[dequeueSQL+"= ANY(?)"], queries[hashesSQL+"= ANY(?)"] = nil, nil
	delete(queries, publishedSQL) // its table has one row
	for query := range queries {
		plan := sqldbtest.PreparedPlan(t, conn, l.db.Rebind(query))
		if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") {
			t.Errorf("%s\nis carried out by\n%s", query, plan)
		}
	}
}

package ledger

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// frequent are the queries that run all the time, with their arguments.
func frequent() map[string][]any {
	now, key := int64(1), payment.Key{}
	return map[string][]any{
		findSQL: {view(now), key},
		dueSQL:  {view(now), view(now), now, 20},
		"SELECT count(*) FROM payments WHERE " + unknown:                        {view(now)},
		selectBrief + " WHERE 1 = 1 AND " + unknown + " ORDER BY +claimed DESC": {view(now), view(now)},
		vanishSQL:      {view(now)},
		historySQL:     {"", now, 1, "", now, 1, "", "", 1},
		aroundSQL:      {"", now, "", now},
		tallySQL:       {"", now, "", now, "", "", now, "", "", 1, key, ""},
		clientSQL:      {"", now, "", now, "", "", now, "", "", 1},
		strangersSQL:   {now, 1, now, 1, view(now), now, view(now)},
		boughtSQL:      {view(now), "", "", 1},
		earlierSQL:     {view(now), "", payment.Digest{}, now, 1},
		paidByPayer:    {"", "", 1},
		paidByClient:   {"", "", 1},
		pruneSQL:       {now, now, now},
		endedSQL:       {view(now), now, now, now, 100, now},
		tidySQL:        nil,
		nextSQL:        {"", "", "", "", now},
		endedInSQL:     {"", "", "", "", now, now},
		placedSQL:      {[]byte{}},
		enqueueSaleSQL: {[]byte{}, []byte{}, 1, key, key},
		byHashSQL:      {payment.Digest{}},
		hashless:       nil,
	}
}

// What runs all the time must not read all payments there ever were.
func TestPlan_NoFrequentQueryScansThePayments(t *testing.T) {
	l := openFile(t)
	ctx := context.Background()
	for query, args := range frequent() {
		plan := explain(t, l, query, args...)
		// Going through an index of few rows reads only those.
		for _, few := range []string{"SCAN payments USING INDEX payments_open", "SCAN answers USING INDEX answers_without_hash"} {
			plan = strings.ReplaceAll(plan, few, "")
		}
		if strings.Contains(plan, "SCAN payments") || strings.Contains(plan, "SCAN answers") || strings.Contains(plan, "SCAN log_entries") {
			t.Errorf("%s\nis carried out by\n%s", query, plan)
		}
	}
	// The test can fail: this one does scan.
	if plan := explain(t, l, "SELECT count(*) FROM payments WHERE amount = '1'"); !strings.Contains(plan, "SCAN payments") {
		t.Errorf("the plan of a scan is\n%s", plan)
	}
	if err := l.Prune(ctx, time.Now()); err != nil {
		t.Error(err)
	}
}

func TestPlan_RefundsAreSummedWithoutAllPayments(t *testing.T) {
	l := openFile(t)
	where, args := l.where(payment.Filter{State: payment.Settled, From: time.UnixMilli(1)})
	if plan := explain(t, l, refundsSQL+where, args...); strings.Contains(plan, "SCAN payments") || !strings.Contains(plan, "SEARCH payments USING INTEGER PRIMARY KEY") {
		t.Errorf("they are summed by\n%s", plan)
	}
}

// SQLite takes a number that is bound as a LIMIT into its plan, and plans again for the
// next one.
func TestPlan_NoFrequentQueryIsPlannedAgain(t *testing.T) {
	for query := range frequent() {
		if regexp.MustCompile(`LIMIT\s*\?`).MatchString(query) {
			t.Errorf("%s", query)
		}
	}
}

// Postgres counts how often it planned a prepared query for the values of one execution.
func TestPlan_NoPreparedQueryIsPlannedAgainOnPostgres(t *testing.T) {
	l, ctx := openPostgres(t), context.Background()
	for range 20 {
		if _, err := l.History(ctx, payment.Record{Client: "client"}, payment.Caps{}); err != nil {
			t.Fatal(err)
		}
	}
	var generic, custom int
	if err := l.db.Reader.QueryRowContext(ctx, "SELECT sum(generic_plans), sum(custom_plans) FROM pg_prepared_statements WHERE statement LIKE 'SELECT (SELECT count(*)%'").Scan(&generic, &custom); err != nil {
		t.Fatal(err)
	}
	if generic != 2*20 || custom != 0 { // of the payer, and of the client
		t.Errorf("planned once for all values and carried out %d times, and for the values of one %d times", generic, custom)
	}
}

func openPostgres(t *testing.T) *Ledger {
	t.Helper()
	url := sqldbtest.Postgres(t)
	if url == "" {
		t.Skip("not installed")
	}
	l, err := Open(context.Background(), url, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func explain(t *testing.T, l *Ledger, query string, args ...any) string {
	t.Helper()
	return sqldbtest.Plan(t, l.db.Writer, "EXPLAIN QUERY PLAN "+query, bind(args)...)
}

// unbounded finds that an index of paid payments is read without a condition.
var unbounded = regexp.MustCompile(`using payments_(payer|client)_paid.*\n\s+Filter:`)

// Postgres plans by its statistics, and expects to find one of the many payments of a
// payer soon: it would read all for a payer who has none.
func TestPlan_NoFrequentQueryScansThePaymentsOnPostgres(t *testing.T) {
	l, ctx := openPostgres(t), context.Background()
	conn, err := l.db.Reader.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, statement := range []string{
		`INSERT INTO payments (network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource,
			amount, pay_to, valid_before, month, claimed, changed, check_at, client)
			SELECT 'n', 'a', 'p', i, 'settled', 'o', 1, '', '', '', '', '1', '', 1, '2026-11', i, i, NULL, 'c' FROM generate_series(1, 5000) AS i`,
		"INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, '' FROM payments",
		"ANALYZE",
		"SET plan_cache_mode = force_generic_plan", // as for statements that are prepared
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	queries := frequent()
	delete(queries, pruneSQL) // once an hour
	for query := range queries {
		plan := sqldbtest.PreparedPlan(t, conn, l.db.Rebind(query))
		// A scan without a condition of the index reads all of it.
		if strings.Contains(plan, "Seq Scan on payments") || strings.Contains(plan, "Seq Scan on answers") || unbounded.MatchString(plan) {
			t.Errorf("%s\nis carried out by\n%s", query, plan)
		}
	}
}

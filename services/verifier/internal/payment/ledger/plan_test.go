package ledger

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// What runs all the time must not read all payments there ever were.
func TestNoFrequentQueryScansThePayments(t *testing.T) {
	l := openFile(t)
	ctx := context.Background()
	now, key := int64(1), payment.Key{}
	queries := map[string][]any{
		findSQL: {view(now), key},
		dueSQL:  {view(now), view(now), now, 20},
		"SELECT count(*) FROM payments WHERE " + unknown:                        {view(now)},
		selectBrief + " WHERE 1 = 1 AND " + unknown + " ORDER BY +claimed DESC": {view(now), view(now)},
		vanishSQL:  {view(now)},
		historySQL: {"", now, "", now, ""},
		tallySQL:   {"", now, now, "", "", now, now, key, ""},
		boughtSQL:  {view(now), "", ""},
		"SELECT count(*) FROM (SELECT 1 FROM payments WHERE payer = ? AND " + paid + " LIMIT ?) AS p":  {"", 1},
		"SELECT count(*) FROM (SELECT 1 FROM payments WHERE client = ? AND " + paid + " LIMIT ?) AS p": {"", 1},
		pruneSQL:   {now, now, now},
		endedSQL:   {view(now), now, now, now, 100, now},
		tidySQL:    nil,
		nextSQL:    {"", "", "", "", now},
		endedInSQL: {"", "", "", "", now, now},
	}
	for query, args := range queries {
		plan := explain(t, l, query, args...)
		// Going through the index of the open payments reads only those.
		if strings.Contains(strings.ReplaceAll(plan, "SCAN payments USING INDEX payments_open", ""), "SCAN payments") || strings.Contains(plan, "SCAN answers") {
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

func explain(t *testing.T, l *Ledger, query string, args ...any) string {
	t.Helper()
	rows, err := l.db.Writer.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+query, bind(args)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail sql.NullString
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, detail.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}

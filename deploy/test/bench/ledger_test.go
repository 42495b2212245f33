package bench

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// bought is how many payments of a ledger were made, not copied.
const bought = 64

// fillLedger makes a ledger of n payments: some are bought, and one of them is
// copied. The verifier has ended then.
func (w *world) fillLedger(database string, n int) {
	url := "sqlite:" + filepath.Join(w.State, "verifier.db")
	if database == "Postgres" {
		url = sqldbtest.Postgres(w.T)
	}
	w.Extra["verifier"]["DATABASE_URL"] = url
	w.facilitator.serve(w)
	w.start(w.recordedNode(), w.Verifier())
	w.bought = w.payments(w.Addresses.Verifier, bought)
	for _, purchase := range w.bought {
		w.must(first(w.Context(), w.cell(paid, w.Addresses.Verifier), purchase))
	}
	w.Programs.End(w.Context(), "verifier", 5*time.Second)
	w.copyPayments(n)
}

// ledger opens the verifier's database beside it.
func (w *world) ledger() *sqldb.DB {
	files := filepath.Join(w.top, "services/verifier/internal/payment/ledger")
	db, err := sqldb.Open(w.Context(), w.Extra["verifier"]["DATABASE_URL"], os.DirFS(files))
	w.must(err)
	return db
}

// day is in milliseconds, as moments are in the ledger.
const day = 24 * 60 * 60 * 1000

// tooOld is the SQL condition of answers that are no longer kept.
var tooOld = fmt.Sprintf("claimed < (SELECT max(claimed) FROM payments) - %d", 91*day)

// spread is an SQL expression of some digits, spread evenly over all that there
// are as i grows, as those of real nonces are.
func spread(digits int) string {
	parts := make([]string, digits)
	for n := range parts {
		parts[n] = fmt.Sprintf("substr('0123456789abcdef', 1 + (i / %d) %% 16, 1)", 1<<(4*n))
	}
	return "'0x' || " + strings.Join(parts, " || ")
}

// copyPayments copies the first payment of a ledger: nonces and payers differ, and
// the copies were claimed one after the other within the last 120 days. Of those
// whose answers are too old to be kept, up to 10,000 have one.
func (w *world) copyPayments(n int) {
	db := w.ledger()
	defer func() { _ = db.Close() }()
	rows, err := db.Reader.QueryContext(w.Context(), "SELECT * FROM payments LIMIT 1")
	w.must(err)
	names, err := rows.Columns()
	w.must(err)
	w.must(rows.Close())
	w.must(rows.Err())
	age := fmt.Sprintf("claimed - 3600000 - (%d - i) * (%d / %d)", n, 120*day, n)
	copied := map[string]string{"nonce": spread(5) + " || substr(nonce, 8)", "payer": spread(3) + " || substr(payer, 6)", "claimed": age, "changed": age}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "id" })
	values := slices.Clone(names)
	for i, name := range names {
		values[i] = cmp.Or(copied[name], name)
	}
	statements := []string{
		fmt.Sprintf(`INSERT INTO payments (%s) WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < %d)
			SELECT %s FROM payments, numbers WHERE id = (SELECT min(id) FROM payments)`, strings.Join(names, ", "), n, strings.Join(values, ", ")),
		`INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, (SELECT answer FROM answers ORDER BY payment LIMIT 1) FROM payments WHERE ` + tooOld + " ORDER BY id LIMIT 10000",
		"UPDATE checks SET up_to = (SELECT max(claimed) FROM payments)", // all were checked in their time
	}
	if db.Dialect == sqldb.Postgres {
		statements = append(statements, "VACUUM ANALYZE") // as it does by itself in time
	}
	for _, statement := range statements {
		_, err := db.Writer.ExecContext(w.Context(), statement)
		w.must(err)
	}
}

// ledgerFigures are in milliseconds.
type ledgerFigures struct{ tidying, resume, list, sum samples }

// measureLedger starts the verifier and measures the sales of its first seconds, in
// which it deletes old answers, and then what looks at old payments.
func (w *world) measureLedger() (f ledgerFigures) {
	const rate, seconds = 50, 8
	w.start(w.Verifier(), w.Proxy())
	sales := w.payments(w.Addresses.Proxy, rate*seconds)
	f.tidying = samples{w.served(sales, rate).quantile(1)}
	w.checkTidied()
	f.resume = w.served(w.bought, rate)
	for range w.rounds {
		for command, into := range map[string]*samples{"list": &f.list, "sum": &f.sum} {
			began := time.Now()
			w.run(w.Verifier(), "payments", command)
			*into = append(*into, milli(time.Since(began)))
		}
	}
	return f
}

// checkTidied fails unless the verifier has deleted the old answers.
func (w *world) checkTidied() {
	db := w.ledger()
	defer func() { _ = db.Close() }()
	var left int
	w.must(db.Reader.QueryRowContext(w.Context(), "SELECT count(*) FROM answers WHERE "+tooOld).Scan(&left))
	if left > 0 {
		w.Fatalf("%d old answers are still there", left)
	}
}

// served sends purchases at a rate and returns how many milliseconds each took.
func (w *world) served(purchases [][]byte, rate int) (took samples) {
	due := steadily(float64(rate), 0, time.Duration(len(purchases))*time.Second/time.Duration(rate))
	for _, o := range openLoop(w.Context(), w.Addresses.Proxy, purchases, due) {
		if o.status != http.StatusOK {
			w.Fatalf("a purchase is answered with %d", o.status)
		}
		took = append(took, milli(o.took))
	}
	return took
}

// compareLedgers measures two ledgers, and then sales side by side.
func (s *suite) compareLedgers(both [2]*world) []row {
	var figures [2]ledgerFigures
	var cells []cell
	for i, w := range both {
		figures[i] = w.measureLedger()
		cells = append(cells, w.cell(paid, w.Addresses.Proxy, w.pids("verifier")...))
	}
	r := s.compare(cells...)
	within := func(what string, many, few samples) row {
		return row{what: what, unit: "ms", ours: many, beside: few, ratio: samples{many.median() / few.median()}, goal: atMost(1000), own: true}
	}
	few, many := figures[0], figures[1]
	return []row{
		faster("sales", r[1].rate, r[0].rate, atLeast(.9)),
		within("resume of an old payment", many.resume, few.resume),
		within("`payments list`", many.list, few.list),
		within("`payments sum`", many.sum, few.sum),
		within("the longest sale while old answers are deleted", many.tidying, few.tidying),
	}
}

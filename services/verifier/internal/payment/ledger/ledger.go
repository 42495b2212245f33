package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

//go:embed migrations
var migrations embed.FS

// Ledger implements payment.Ledger and payment.Upkeep on SQL.
type Ledger struct {
	db     *sqldb.DB
	now    func() time.Time
	writes *batcher // the one way to change something of payments
	// logs reports whether what is sold is queued for the log of receipts.
	logs bool
	// finality are the chains whose sold blocks are queued for a proof of finality.
	finality []string
}

var (
	_ payment.Ledger = (*Ledger)(nil)
	_ payment.Upkeep = (*Ledger)(nil)
)

// Options are what a process needs of its ledger. A command needs no more than the clock.
type Options struct {
	// Now is the clock.
	Now func() time.Time
	// Finality are the chains, by their CAIP-2 ids, whose sold blocks are queued for a
	// proof of finality.
	Finality []string
	// Log reports whether what is sold is queued for the log of receipts.
	Log bool
}

// Open opens the ledger of a database URL (see sqldb.Open) and applies missing migrations. sqldb.ErrURL,
// sqldb.ErrUnreachable.
func Open(ctx context.Context, databaseURL string, o Options) (*Ledger, error) {
	// Postgres expects more of a range of unknown ends than of a known one, and would plan the
	// prepared queries of every sale anew, which takes as long as carrying them out.
	db, err := sqldb.Open(ctx, databaseURL, migrations, "plan_cache_mode = force_generic_plan")
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	l := &Ledger{db: db, now: o.Now, logs: o.Log, finality: o.Finality}
	l.writes = newBatcher(l) //nolint:contextcheck // batches outlive Open
	return l, nil
}

// Close finishes the writes under way and closes the database.
func (l *Ledger) Close() error {
	l.writes.close()
	return l.db.Close()
}

// DB returns the database, in which others keep what belongs to the payments. It closes with the ledger.
func (l *Ledger) DB() *sqldb.DB { return l.db }

// Ping checks that the database answers.
func (l *Ledger) Ping(ctx context.Context) error { return l.db.Ping(ctx) }

// Conditions and columns that several queries share.
const (
	// byKey takes a payment.Key.
	byKey = " network = ? AND asset = ? AND payer = ? AND nonce = ?"
	// abandoned holds for a record that no process works on. It takes a view.
	abandoned = `(payments.deadline <= ? OR NOT EXISTS
	(SELECT 1 FROM owners WHERE owners.id = payments.owner AND owners.alive_until > ?))`
	// undecided is the condition of the index payments_open, word for word: SQLite uses a partial
	// index only for a query that repeats its condition. It holds for all that are neither settled
	// nor dead; and, until Prune, for some that ended under an earlier release of this program.
	undecided = "check_at IS NOT NULL"
	// unknown holds for a record that reads as unknown. It takes a view.
	unknown = undecided + " AND (state = 'unknown' OR (state = 'settling' AND " + abandoned + "))"
	// seenState is the state that payment.Ledger promises: a settling record that no
	// process works on reads as unknown. It takes a view.
	seenState = "CASE WHEN state = 'settling' AND " + abandoned + " THEN 'unknown' ELSE state END"
	columns   = "network, asset, payer, nonce, " + seenState + `,
	owner, deadline, payment, request, identifier, resource, amount, pay_to, valid_before, client,
	month, tx, reason, claimed, changed, repeats, again, operation, transport, plain`
	// selectRecord and selectBrief, which leaves the answer out, take a view first. In place of a large answer,
	// selectRecord has its hash and its size. One that an earlier release wrote has no hash until the next Prune.
	selectRecord = "SELECT " + columns + ", (SELECT CASE WHEN " + large + " THEN hash ELSE answer END" + ofRecord +
		", (SELECT CASE WHEN " + large + " THEN length(answer) ELSE 0 END" + ofRecord + " FROM payments"
	selectBrief = "SELECT " + columns + ", NULL, NULL FROM payments"
	ofRecord    = " FROM answers WHERE answers.payment = payments.id)"
	large       = "hash IS NOT NULL AND length(answer) >= 262144" // payment.LargeAnswer
)

// view is the moment for which a query shows the states of records.
type view int64

func (l *Ledger) view() view { return view(l.now().UnixMilli()) }

// bind returns arguments as drivers take them: for a Key its four columns, for a view its time twice.
func bind(args []any) []any {
	values := make([]any, 0, len(args)+8)
	for _, arg := range args {
		switch arg := arg.(type) {
		case payment.Key:
			values = append(values, arg.Network, arg.Asset, arg.Payer, arg.Nonce)
		case view:
			values = append(values, int64(arg), int64(arg))
		case payment.Digest:
			values = append(values, arg[:])
		case time.Time:
			values = append(values, arg.UnixMilli())
		default:
			values = append(values, arg)
		}
	}
	return values
}

// row reads one row outside of a transaction.
func (l *Ledger) row(ctx context.Context, query string, args ...any) sqldb.Scanner {
	return l.db.Query(query).Row(ctx, bind(args)...)
}

// scan reads one record; ErrNotFound when there is none.
func scan(row sqldb.Scanner) (payment.Record, error) {
	var r payment.Record
	var paid, request, answer []byte
	var unread sql.NullInt64
	var again string
	var deadline, validBefore, claimed, changed int64
	err := row.Scan(&r.Key.Network, &r.Key.Asset, &r.Key.Payer, &r.Key.Nonce, &r.State, &r.Owner, &deadline,
		&paid, &request, &r.Identifier, &r.Resource, &r.Amount, &r.PayTo, &validBefore, &r.Client,
		&r.Month, &r.Transaction, &r.Reason, &claimed, &changed, &r.Retries, &again, &r.Operation, &r.Transport,
		&r.Plain, &answer, &unread)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return payment.Record{}, payment.ErrNotFound
	case err != nil:
		return payment.Record{}, fmt.Errorf("read a payment: %w", err)
	}
	if again != "" {
		r.RetryMonths = strings.Fields(again)
	}
	r.Operation = operationOf(r.Operation, r.Resource)
	switch {
	case unread.Int64 > 0:
		r.Answer = payment.Unread(payment.Digest(answer), int(unread.Int64))
	case answer != nil:
		r.Answer = payment.Queued(answer)
	}
	copy(r.Payment[:], paid)
	copy(r.Request[:], request)
	r.Deadline, r.ValidBefore = sqldb.Moment(deadline), sqldb.Moment(validBefore)
	r.Claimed, r.Changed = sqldb.Moment(claimed), sqldb.Moment(changed)
	return r, nil
}

// operationOf returns the operation of a record. Those of a release that did not write
// it were sold over HTTP alone, and the last part of the path names it.
func operationOf(operation, resource string) string {
	if operation == "" && resource != "" {
		return path.Base(resource)
	}
	return operation
}

// querier is a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// rowOf reads one row from a pool or in a transaction.
func (l *Ledger) rowOf(ctx context.Context, from querier, query string, args ...any) *sql.Row {
	return from.QueryRowContext(ctx, l.db.Rebind(query), bind(args)...)
}

// list reads records from a pool or in a transaction.
func (l *Ledger) list(ctx context.Context, from querier, query string, args ...any) ([]payment.Record, error) {
	rows, err := from.QueryContext(ctx, l.db.Rebind(query), bind(args)...)
	list, err := sqldb.All(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	return list, nil
}

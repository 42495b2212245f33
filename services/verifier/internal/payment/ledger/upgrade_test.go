package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// asFirstReleased makes a database as the first release did, with a payment of
// each state, whose nonce names it.
func asFirstReleased(t *testing.T, url string) {
	t.Helper()
	first := fstest.MapFS{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		name := "migrations/" + dialect + "/00001_payments.sql"
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		first[name] = &fstest.MapFile{Data: text}
	}
	db, err := sqldb.Open(t.Context(), url, first)
	if err != nil {
		t.Fatal(err)
	}
	for i, state := range []payment.State{payment.Working, payment.Settling, payment.Unknown, payment.Dead, payment.Settled} {
		for _, statement := range []string{
			fmt.Sprintf(`INSERT INTO payments (network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource,
				amount, pay_to, valid_before, claimed, changed, check_at)
				VALUES ('n', 'a', 'p', '%s', '%[1]s', 'gone', 1, '', '', '', '', '1', '', 1, %[2]d, 1, 1)`, state, i+1),
			fmt.Sprintf("INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, 'answer of %s' FROM payments WHERE nonce = '%[1]s'", state),
		} {
			if _, err := db.Writer.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUpgrade_OfALedgerOfTheFirstRelease(t *testing.T) {
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			asFirstReleased(t, url)
			l, err := Open(t.Context(), url, Options{Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			ctx := context.Background()
			want := map[payment.State]payment.State{payment.Settling: payment.Unknown, payment.Unknown: payment.Unknown, payment.Dead: payment.Dead, payment.Settled: payment.Settled}
			for state, now := range want {
				r, err := l.Get(ctx, payment.Key{Network: "n", Asset: "a", Payer: "p", Nonce: string(state)})
				if err != nil || r.State != now || r.Answer.String() != "answer of "+string(state) {
					t.Errorf("%s: %+v, %v", state, r, err)
				}
			}
			if backend == "sqlite" { // on Postgres those that have ended are left to Prune
				wantOpen(t, l, "settling unknown working")
			}
			for i, want := range []error{nil, nil, payment.ErrNotFound} {
				if _, err := l.Due(ctx, time.Now().Add(time.Hour)); !errors.Is(err, want) {
					t.Errorf("due, %d: %v, want %v", i, err, want)
				}
			}
			// Rolled back, the first release settles one more.
			if _, err := l.db.Writer.ExecContext(ctx, "UPDATE payments SET state = 'settled' WHERE nonce = 'unknown'"); err != nil {
				t.Fatal(err)
			}
			if err := l.Prune(ctx, time.UnixMilli(0)); err != nil {
				t.Fatal(err)
			}
			wantOpen(t, l, "settling")
			if got, err := l.Answer(ctx, sha256.Sum256([]byte("answer of unknown"))); err != nil || got.String() != "answer of unknown" {
				t.Errorf("by its hash it is %q, %v", got, err)
			}
		})
	}
}

// wantOpen looks which payments are in the index of the undecided.
func wantOpen(t *testing.T, l *Ledger, want string) {
	t.Helper()
	rows, err := l.db.Reader.QueryContext(context.Background(), "SELECT nonce FROM payments WHERE "+undecided+" ORDER BY nonce")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var open []string
	for rows.Next() {
		var nonce string
		if err := rows.Scan(&nonce); err != nil {
			t.Fatal(err)
		}
		open = append(open, nonce)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(open, " "); got != want {
		t.Errorf("open are %q, want %q", got, want)
	}
}

// Before there were columns for it, everything was sold over HTTP, and the path named
// the operation.
func TestUpgrade_AnOldRowsOperationIsItsResources(t *testing.T) {
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			asFirstReleased(t, url)
			l, err := Open(t.Context(), url, Options{Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			if _, err := l.db.Writer.ExecContext(t.Context(), "UPDATE payments SET resource = 'https://seller.example/v1/verify/base-transaction' WHERE nonce = 'settled'"); err != nil {
				t.Fatal(err)
			}
			list, err := l.List(t.Context(), payment.Filter{Operation: "base-transaction", Transport: payment.TransportHTTP})
			if err != nil || len(list) != 1 || list[0].Key.Nonce != "settled" || list[0].Operation != "base-transaction" || list[0].Transport != "http" {
				t.Errorf("listed %+v, %v", list, err)
			}
			if list, err := l.List(t.Context(), payment.Filter{Transport: payment.TransportMCP}); err != nil || len(list) != 0 {
				t.Errorf("listed %+v, %v", list, err)
			}
		})
	}
}

// decision is an operator's decision about an unknown payment.
func decision(o payment.Outcome) payment.Event {
	return payment.Event{Kind: payment.EventDecision, By: payment.ByOperator, Outcome: o, Decision: payment.Decision{From: payment.Unknown, By: "root", Note: "n"}}
}

// What a former release's payments resolve has decided is read with the decisions.
func TestBooks_ContainTheResolutionsOfAFormerRelease(t *testing.T) {
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			l, err := Open(t.Context(), url, Options{Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			key := claim(t, l, "1")
			if _, err := l.db.Writer.ExecContext(t.Context(), `INSERT INTO resolutions (payment, at, by_whom, from_state, to_state, tx, why)
				SELECT id, 1, 'root', 'unknown', 'dead', '', 'never came' FROM payments`); err != nil {
				t.Fatal(err)
			}
			decisions, _, err := l.Books(t.Context(), key)
			if err != nil || len(decisions) != 1 || decisions[0].By != "root" || decisions[0].To != payment.Dead || decisions[0].Note != "never came" {
				t.Errorf("the books have %+v, %v", decisions, err)
			}
			if settled, dead, err := l.Decided(t.Context()); err != nil || settled != 0 || dead != 1 {
				t.Errorf("decided are %d settled, %d dead, %v", settled, dead, err)
			}
		})
	}
}

func TestBooks_AreOnlyAddedTo(t *testing.T) {
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			l, err := Open(t.Context(), url, Options{Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			key := claim(t, l, "1")
			if err := begin(l, key); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Apply(t.Context(), key, payment.Verdict(payment.Outcome{State: payment.Unknown})); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Apply(t.Context(), key, decision(payment.Outcome{State: payment.Settled, Transaction: "0xt"})); err != nil {
				t.Fatal(err)
			}
			if err := l.Refund(t.Context(), key, payment.Refund{Transaction: "0x1", Amount: "1", By: "root", Note: "n"}); err != nil {
				t.Fatal(err)
			}
			for _, statement := range []string{"UPDATE decisions SET note = ''", "DELETE FROM decisions", "UPDATE refunds SET amount = '0'", "DELETE FROM refunds"} {
				if _, err := l.db.Writer.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "only added") {
					t.Errorf("%s: %v", statement, err)
				}
			}
		})
	}
}

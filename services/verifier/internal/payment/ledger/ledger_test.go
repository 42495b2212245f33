package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// onEach runs a suite on SQLite and Postgres, each ledger on a database of its
// own.
func onEach(t *testing.T, suite func(*testing.T, Open)) {
	fresh := map[string]func(testing.TB) string{"sqlite": sqldbtest.SQLite, "postgres": sqldbtest.Postgres}
	for backend := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			suite(t, func(t *testing.T, now func() time.Time) Store {
				url := fresh[backend](t)
				return func() *ledger.Ledger { return open(t, url, now) }
			})
		})
	}
}

func open(t *testing.T, url string, now func() time.Time) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), url, ledger.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestLedger_OnSQL(t *testing.T) { onEach(t, Run) }

func TestLedger_OnSQLConcurrently(t *testing.T) { onEach(t, RunConcurrently) }

// One with an hour left is killed while its clock is ahead, another arrives.
func TestLease_FromAClockAheadIsCutBackOnOneMachine(t *testing.T) {
	want := map[string]payment.State{"sqlite": payment.Unknown, "postgres": payment.Settling}
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			now := time.Now()
			l := open(t, url, func() time.Time { return now })
			ctx, ahead := context.Background(), now.Add(time.Hour)
			r := payment.Record{Key: payment.Key{Network: "n", Asset: "a", Payer: "p", Nonce: "1"}, Owner: "killed", Deadline: ahead, Amount: "1"}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(l.Register(ctx, r.Owner, ahead))
			_, _, err := l.Claim(ctx, r)
			must(err)
			_, _, err = l.Begin(ctx, r.Key, r.Owner, payment.Settlement{Answer: []byte("{}"), Month: "2026-11", Limit: 1, Deadline: ahead})
			must(err)
			must(l.Register(ctx, "started", now.Add(10*time.Second)))
			if got, err := l.Get(ctx, r.Key); err != nil || got.State != payment.Settling {
				t.Errorf("at once it is %s, %v", got.State, err)
			}
			now = now.Add(10 * time.Second)
			if got, err := l.Get(ctx, r.Key); err != nil || got.State != want[backend] {
				t.Errorf("ten seconds later it is %s, %v; want %s", got.State, err, want[backend])
			}
		})
	}
}

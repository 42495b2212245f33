package sqlledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledgertest"
	"github.com/pforte/pforte/services/verifier/internal/payment/sqlledger"
)

// onEach runs a suite on SQLite and Postgres, each ledger on a database of its
// own.
func onEach(t *testing.T, suite func(*testing.T, ledgertest.Open)) {
	fresh := map[string]func(testing.TB) string{"sqlite": sqldbtest.SQLite, "postgres": sqldbtest.Postgres}
	for backend := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			suite(t, func(t *testing.T, now func() time.Time) ledgertest.Store {
				url := fresh[backend](t)
				return func() payment.Ledger { return open(t, url, now) }
			})
		})
	}
}

func open(t *testing.T, url string, now func() time.Time) *sqlledger.Ledger {
	t.Helper()
	l, err := sqlledger.Open(context.Background(), url, now)
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

func TestTheSQLLedger(t *testing.T) { onEach(t, ledgertest.Run) }

func TestTheSQLLedgerConcurrently(t *testing.T) { onEach(t, ledgertest.RunConcurrently) }

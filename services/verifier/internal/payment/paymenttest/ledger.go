package paymenttest

import (
	"context"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// Ledger opens an empty ledger in memory that uses the clock now.
func Ledger(t testing.TB, now func() time.Time) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), "sqlite::memory:", ledger.Options{Now: now})
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

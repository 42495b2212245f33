package payment_test

import (
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledgertest"
)

func openMemory(_ *testing.T, now func() time.Time) ledgertest.Store {
	m := payment.NewMemory(now)
	return func() payment.Ledger { return m }
}

func TestTheMemoryLedger(t *testing.T) { ledgertest.Run(t, openMemory) }

func TestTheMemoryLedgerConcurrently(t *testing.T) { ledgertest.RunConcurrently(t, openMemory) }

// Package ledgertest holds the tests that every payment.Ledger must pass. It is
// for _test.go files only.
package ledgertest

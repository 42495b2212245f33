// Package paymenttest has what tests of payments need: a facilitator and its chain in memory,
// whose transfers show what was paid, the payments that stock clients of both protocol versions
// send, a ledger, and the events of the table of transitions. It is for _test.go files only.
package paymenttest

// Package paymenttest has what tests of payments need: an honest facilitator and
// its chain in memory, whose transfers are the independent record, and the
// payments that stock clients of both protocol versions send. It is for _test.go
// files only.
package paymenttest

// Package paywall sells one answer for one payment, whatever is interrupted.
//
// A purchase is read from the top in purchase.go: claim, verify (and, for a payer
// whose own key signed, work beside it), begin, settle, finish, answer. What
// interrupts it is in recovery.go: buyers that return, outcomes that the service
// finds out, writes that failed. The quota of the month, the bounds of failed
// settlements and of unpaid attempts are in limits.go.
//
// It promises, across crashes and replicas:
//
//   - no charge for work that failed;
//   - a buyer whose payment moved gets the answer when they return with it;
//   - one payment buys one answer, for the request that it first came with;
//   - no more settlements begin in a month than the free-settlement limit.
package paywall

// Package paywall sells one answer for one payment, whatever is interrupted.
//
// A purchase is read from the top in purchase.go: claim, verify (and, for a payer
// whose own key signed, work beside it), begin, settle, finish, answer. How its
// settling ends, for buyers, the service and operators, and writes that failed, are in
// settle.go; buyers that return are in recovery.go, and what operators decide is in
// operator.go. The quota of the month, the bounds of failed settlements and of unpaid
// attempts are in limits.go.
//
// It promises, across crashes and replicas:
//
//   - no charge for work that failed;
//   - a buyer whose payment moved gets the answer when they return with it;
//   - one payment buys one answer, for the request that it first came with;
//   - no more settlements begin in a month than the free-settlement limit.
package paywall

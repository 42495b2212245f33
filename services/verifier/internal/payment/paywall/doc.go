// Package paywall sells one answer for one payment, whatever is interrupted.
//
// A purchase is read from the top in purchase.go: claim, verify, work, begin, settle, finish,
// answer. Where the payer's own key signed, the work may go on beside the verification; where it
// did not, the payment is verified before the claim. How its settling ends, and writes that
// failed, are in settle.go; buyers that return are in recovery.go, payments that nobody returns
// for in reconciler.go, and what operators decide is in operator.go. The quota of the month, the
// bounds of failed settlements and of unpaid attempts are in limits.go, what unknown payers share
// in strangers.go.
//
// It promises, across crashes and replicas:
//
//   - no charge for work that failed;
//   - a buyer whose payment moved gets the answer when they return with it;
//   - one payment buys one answer;
//   - no more settlements begin in a month than the free-settlement limit.
package paywall

// Package payment is the paywall: what a call costs, whether a payment is good,
// and the ledger that makes one payment buy exactly one answer.
//
// It owns the terms (Terms), the reading and local judging of payments
// (Payment), the ledger's meaning (Ledger, Record, State) with a memory ledger,
// and the order of steps between a payment and its answer (Gate): claim, the
// facilitator's verify beside the work, reserve, settle last. It knows no HTTP
// status and no route; the facilitator, the SQL ledger and the chain's log are
// behind interfaces and live in the packages below this one.
//
// The promises, which the ledger keeps across crashes and replicas:
//
//   - nobody is charged for work that failed;
//   - a buyer whose payment moved gets its answer when he returns with it;
//   - one payment buys one answer, for the request it first came with;
//   - no more settlements begin in a month than the free-settlement limit.
package payment

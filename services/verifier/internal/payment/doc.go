// Package payment has the types of selling: the terms of an offer (Terms, Offer), a payment as it
// was read (Payment), what the ledger keeps of it (Record, State, Outcome), how its state changes
// (Next), and the interfaces of what a sale needs (Ledger, Facilitator, ChainLog).
//
// An authorization is named by its Key, whose nonce can be spent once. A copy of it is one set of the
// values that are signed (amount, payee, window) with one signature; copies may differ in both. A copy
// is plain where the payer's own key signed (Terms.SignedByPayer). A payer is known who has paid and
// rarely failed (Caps.Knows); all others are strangers.
//
// The package knows no HTTP status, no route and no order of steps: package paywall sells. The
// facilitator's client, the ledger in SQL and the reading of the chain's log are in packages of
// their own.
package payment

// Package payment has the nouns of selling: the terms of an offer (Terms, Offer),
// a payment as it was read and compared with them (Payment), what the ledger keeps
// of it (Record, State, Outcome), and the interfaces of what a sale needs (Ledger,
// Facilitator, ChainLog).
//
// It knows no HTTP status, no route and no order of steps: package paywall below
// it sells. The facilitator's client, the ledger in SQL and the reading of the
// chain's log are in packages of their own.
package payment

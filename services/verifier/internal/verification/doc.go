// Package verification is what the service sells: it compares one transaction with
// the caller's expectations and puts what was proven into the unsigned evidence of
// pkg/receipt.
//
// ParseRequest reads the request, evaluate compares (a pure function), Verifier joins
// both to a Reader, and Receipts signs what it finds and keeps the latest receipts.
// HTTP, payment and nodes are in other packages.
package verification

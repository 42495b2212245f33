// Package verification is what the service sells: it judges one transaction
// against the caller's expectations and puts what was proven into the unsigned
// evidence of pkg/receipt.
//
// ParseRequest reads the question, evaluate judges it (a pure function), and
// Verifier joins both to a chain.Reader. The package knows no HTTP, no payment,
// no node and no key.
package verification

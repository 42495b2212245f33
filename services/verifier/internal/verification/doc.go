// Package verification is what the service sells: it compares one transaction with
// the caller's expectations and puts what was proven into the unsigned evidence of
// pkg/receipt.
//
// ParseRequest reads the request, evaluate compares (a pure function), and Verifier
// joins both to a chain.Reader. HTTP, payment, nodes and keys are elsewhere.
package verification

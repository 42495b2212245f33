// Package verification is what the service sells: it compares one transaction with
// the caller's expectations, or finds the transfer in it that the caller asks for, and
// puts what was proven into the unsigned evidence of pkg/receipt.
//
// ParseRequest and ParseTransferRequest read the request, evaluate and evaluateTransfer
// compare (pure functions), Verifier joins both to a Reader, and Receipts signs the
// evidence and keeps signed receipts. HTTP, payment and nodes are in other packages.
package verification

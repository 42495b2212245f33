// Package facilitator calls an x402 facilitator over HTTP to check payments
// and to settle them (specification: x402-specification-v2.md, section 7).
//
// It owns the transport: bounded answers, no redirects, one retry of a check,
// which moves no money, a circuit that stops checks when the facilitator is away,
// and the token that Coinbase's CDP wants with every call. What an answer means
// is judged in package payment.
package facilitator

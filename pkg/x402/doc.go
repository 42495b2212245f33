// Package x402 holds the wire types of the x402 payment protocol, versions 2
// and 1, for the scheme "exact" with EIP-3009 authorizations: what a seller
// requires, what a buyer sends, and what a facilitator receives and answers.
//
// It owns shapes, names and encodings (specification: github.com/coinbase/x402,
// specs/x402-specification-v2.md, specs/x402-specification-v1.md and
// specs/transports-v2/http.md). It does not judge whether a payment is good: that
// is for the seller and the facilitator.
package x402

// Package sign has the private keys of the provider: it makes, seals and opens them, and signs and verifies tokens
// (RFC 7515, 7517, 7518 and 7638, by go-jose). No other package touches a private key.
//
// It takes only tokens that have the form of the provider's own, and the algorithm of the key that they name.
package sign

// Package agent is a paying client for the terminal: it asks a verifier about a
// transaction, pays for the answer over x402 version 2, and checks the signed
// receipt offline.
//
// It trusts the seller with nothing: it pays known tokens only, never more than
// its cap, and writes a signed payment down before it sends it, so that after a
// crash the same payment is sent again instead of a second one.
package agent

// Package agent is a paying client for the terminal: it requests the verification of a
// transaction, pays for it over x402 version 2, and checks the signed
// receipt offline.
//
// It does not trust the seller: it pays known tokens only, never more than
// its cap, and writes a signed payment down before it sends it, so that after a
// crash the same payment is sent again instead of a second one.
package agent

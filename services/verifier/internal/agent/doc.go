// Package agent is a paying client for the terminal and for assistants: it requests
// evidence of transactions and transfers, pays for it over x402 version 2, and checks
// the signed receipts offline. The command mcp serves such purchases as tools of the
// Model Context Protocol over stdio.
//
// It does not trust the seller: it pays known tokens only, never more than
// its caps, and writes a signed payment down before it sends it, so that after a
// crash the same payment is sent again instead of a second one. Each payment is counted
// against the cap of 24 hours before it is signed, in a file that several processes
// share (limits.go).
package agent

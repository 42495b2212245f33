// Package client calls a stack as its users do: it logs in and keeps the session,
// pays for calls with x402 (scheme "exact" by EIP-3009, both protocol versions),
// and reads the chain and Redis past every service. It is for programs that test
// and measure the stack; a careful buyer with a spending cap is the verifier's
// agent.
package client

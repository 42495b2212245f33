// Package buyer pays for calls with x402, scheme "exact" by EIP-3009, in both
// protocol versions, and keeps what it signed and what it was answered: a
// record of purchases that no service has a hand in. It is for programs that
// measure and try the stack; a careful client with a spending cap is the
// verifier's agent.
package buyer

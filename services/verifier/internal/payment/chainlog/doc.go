// Package chainlog reads what became of a payment from the payment network's
// own log: whether an EIP-3009 authorization was used, by which transaction,
// and whether that transaction moved the money to us.
//
// It owns the JSON-RPC calls for that, which ordinary nodes answer, and reads the events that
// package evm pairs. It also reads a payer's account and the token's contract.
package chainlog

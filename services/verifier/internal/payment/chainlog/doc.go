// Package chainlog reads what became of a payment from the payment network's
// own log: whether an EIP-3009 authorization was used, by which transaction,
// and whether that transaction moved the money to us.
//
// It owns the JSON-RPC calls for that and the rule that pairs an
// AuthorizationUsed event with its Transfer. It also reads a payer's account and
// the token's contract. It makes plain calls that every node answers.
package chainlog

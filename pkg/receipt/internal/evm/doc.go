// Package evm reads what a block commits to, out of the very bytes that were
// hashed: headers, transactions of every type of Ethereum, OP-stack chains and
// Arbitrum, and transaction receipts.
//
// It trusts nothing but these bytes. Whether they belong to a block is for
// package mpt and the caller to check.
package evm

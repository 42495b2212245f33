// Package eip3009 has transfers by authorization (EIP-3009): the typed data that a
// payer signs (EIP-712), signing it, and recovering the signer. It needs no chain.
package eip3009

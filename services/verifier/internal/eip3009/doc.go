// Package eip3009 knows transfers by authorization (EIP-3009): the typed data
// that a payer signs (EIP-712), signing it, and recovering who signed. It judges
// nothing and asks no chain.
package eip3009

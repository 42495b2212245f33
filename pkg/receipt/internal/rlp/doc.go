// Package rlp reads and writes Recursive Length Prefix encoding (Ethereum yellow
// paper, appendix B) as strictly as consensus does: an item has exactly one
// encoding, and whatever is not that one is an error. Two readers can then never
// understand the same hashed bytes differently.
//
// It knows items only; what they mean is package evm's.
package rlp

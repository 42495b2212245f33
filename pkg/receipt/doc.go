// Package receipt is the signed evidence about one finalized transaction: its
// format, how it is signed, and how anybody checks it offline.
package receipt

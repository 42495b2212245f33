// Soak runs the whole stack under mixed load for hours and judges whether
// anything grows that should not: memory, goroutines, open files, keys in
// Redis, records in the ledger. It prints a table, and fails when one of them
// grew, or when an answer was not the expected one.
//
// The load is moderate on purpose: what leaks does so with every request, and a
// machine that is busy with answers has no room to show it.
package main

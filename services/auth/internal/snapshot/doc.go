// Package snapshot keeps in memory for seconds what a store says, so that many requests of anonymous clients cost one
// read of SQL.
package snapshot

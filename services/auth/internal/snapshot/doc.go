// Package snapshot keeps in memory for seconds what a store says, so that what an anonymous client asks for costs no
// SQL.
package snapshot

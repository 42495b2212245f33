// Package redistest starts private redis-servers for tests. It is for _test.go
// files only.
//
// Where redis-server is not installed the test is skipped; with CI set in the
// environment it fails.
package redistest

// Package redistest starts private redis-servers for tests. It is for _test.go
// files only.
//
// Where redis-server is not installed a person's run skips the test visibly;
// with CI set in the environment the test fails.
package redistest

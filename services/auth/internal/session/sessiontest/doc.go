// Package sessiontest holds what every session.Store must do, as tests that a
// store's own tests run against it: Run for the meaning, RunConcurrent for what
// happens at once. It is for _test.go files only.
package sessiontest

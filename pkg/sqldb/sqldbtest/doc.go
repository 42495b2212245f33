// Package sqldbtest gives tests fresh SQLite and Postgres databases. It is for
// _test.go files only.
//
// Postgres is started once a test process from the programs of the machine, on
// a free port and in a folder of its own, and stopped with the process. Where
// it is not installed, a person's run goes on without it and says so; with CI
// set in the environment the test fails.
package sqldbtest

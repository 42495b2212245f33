// Package sqldbtest creates fresh SQLite and Postgres databases for tests. Only
// _test.go files import it.
//
// Postgres is started once per test process from the programs of the machine, on
// a free port and in a folder of its own, and stopped with the process. Where
// it is not installed, tests run without it and log that; with CI set in the
// environment they fail.
package sqldbtest

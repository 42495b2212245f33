// Package chaintest has what tests of chains need: recorded blocks of real
// networks, and a JSON-RPC node that serves them with settable faults. Only tests
// import it.
package chaintest

// Package chaintest has what tests of chains need: recorded blocks of real
// networks, a JSON-RPC node that serves them with settable faults, and a scripted
// chain.Reader. Only tests import it.
package chaintest

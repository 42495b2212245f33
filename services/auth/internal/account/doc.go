// Package account holds the rules of the contract about accounts: who may log
// in, and what changing a password, creating, deleting and listing users means.
//
// It owns the order of the steps between the user store, the session store and
// the password hasher, so that a session never outlives what it was allowed
// by. It knows no HTTP and no text for people; failures are the sentinels of
// this package and of user, session and password.
//
// # Revocations
//
// Users and sessions live in two stores, and the process may end between any
// two lines. The user store therefore records, in the transaction of the change
// itself, that sessions have to follow. The rule carries that out at once;
// Replay does it for whoever could not.
//
// No request waits for that, nor for the session store to remember it: the same
// transaction gives the user a new stamp, or another role, or takes the row away,
// and Holder compares a session with the row at every request.
package account

// Package user holds the members of the household: the User, what its fields
// may be, and the Store that keeps them.
//
// It owns the rules of contract section 2 ("User") and the promise that there
// is always an admin. It knows no HTTP, no session and no SQL; the stores stand
// in packages of their own (sqlstore), and MemoryStore is the contract that
// they are tested against (usertest).
package user

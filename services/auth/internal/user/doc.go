// Package user holds the users: the User, what its fields may be, and the Store
// that keeps them.
//
// It owns the rules of AUTH-1 and the invariant that there
// is always an admin. It knows no HTTP, no session and no SQL; sqlstore holds the
// Store.
package user

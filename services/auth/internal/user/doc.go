// Package user describes users: the User, what its fields may be (AUTH-1), and the errors of the stores that keep
// them.
//
// It knows no HTTP and no SQL. The interfaces of the stores are in the packages whose rules need them, as
// account and people; sqlstore implements them, and leaves the last admin in place.
package user

// Package application describes the applications behind the guard, the rules of who may
// use them, and the groups of users that rules name.
//
// An application has one address: a path on the portal's host, or an origin of its own.
// Origins are kept in one spelling and compared for equality, never by prefix.
package application

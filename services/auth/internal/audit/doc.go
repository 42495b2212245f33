// Package audit describes what is recorded of who did what, and when.
//
// An act that changes something is written in the same transaction as its change, so
// that neither is without the other. Events beside an act, such as logins, are written
// through a bounded queue: a full disk does not keep people out.
package audit

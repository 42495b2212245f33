// Package audit records who did what, and when, and does what follows from it: lines in
// the log, notices to users, and notifications.
//
// An event about a change of the database is written in the transaction of the change, so
// that neither is without the other. Logins are written through a bounded queue: a full
// disk does not keep people out.
package audit

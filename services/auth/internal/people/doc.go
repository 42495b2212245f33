// Package people holds the rules about who belongs to the household: creating, changing and
// deleting users, the links by which they join or set a new password, and the import from
// another application.
//
// Sessions and passwords are those of package account, which ends the sessions that a change revokes.
package people

// Package secrets owns the files that a stack makes once and must not lose: what its
// services sign and seal with, and the passwords of their databases and of Redis.
//
// They are in one folder or, where it has folders of the services' names, each in the
// folder of its service; what a new Postgres reads is in a folder of its own. Every file
// is written whole or not at all: a key that signed and was then lost cannot be made again.
package secrets

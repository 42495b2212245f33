// Package freeport finds addresses of this machine for programs that tests and
// tools start and that need an address to listen on.
package freeport

// Package freeport finds addresses of this machine for programs that tests and
// tools start and that must be told where to listen.
package freeport

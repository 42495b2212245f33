// Package serve runs HTTP servers with the timeouts a server on the open
// network needs, and stops them gracefully.
//
// It owns listening, timeouts and draining, and what every handler needs of a
// request alike: its name, and an error in place of a panic. What is served
// belongs to the caller.
package serve

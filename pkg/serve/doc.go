// Package serve runs HTTP servers with the timeouts a server on the open
// network needs, and stops them gracefully.
//
// It owns listening, timeouts and draining. What is served belongs to the
// caller.
package serve

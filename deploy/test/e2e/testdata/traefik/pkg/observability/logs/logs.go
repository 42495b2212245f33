// Package logs names the members of log lines.
package logs

// The members.
const (
	MiddlewareName = "middlewareName"
	MiddlewareType = "middlewareType"
)

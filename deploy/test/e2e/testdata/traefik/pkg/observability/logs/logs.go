// Package logs names the members of log lines.
package logs

// Names of members of a log line.
const (
	MiddlewareName = "middlewareName"
	MiddlewareType = "middlewareType"
)

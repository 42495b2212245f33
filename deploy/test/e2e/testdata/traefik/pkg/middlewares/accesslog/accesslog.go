// Package accesslog writes no log.
package accesslog

import "net/http"

// ClientUsername is the name of a member of a log line.
const ClientUsername = "ClientUsername"

// LogData is a log line.
type LogData struct{ Core map[string]any }

// GetLogData returns nil: there is no log.
func GetLogData(*http.Request) *LogData { return nil }

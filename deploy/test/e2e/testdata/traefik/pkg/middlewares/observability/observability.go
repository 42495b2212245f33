// Package observability has no traces.
package observability

import "context"

// SetStatusErrorf does nothing.
func SetStatusErrorf(context.Context, string, ...any) {}

// TracingEnabled returns false.
func TracingEnabled(context.Context) bool { return false }

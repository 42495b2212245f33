// Package httputil has what the copied files use of it.
package httputil

import "context"

// StatusClientClosedRequest is nginx's status.
const StatusClientClosedRequest = 499

// SetNotAppendXFF returns ctx.
func SetNotAppendXFF(ctx context.Context) context.Context { return ctx }

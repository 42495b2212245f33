// Package httputil has what the copied files use of Traefik's package httputil.
package httputil

import "context"

// StatusClientClosedRequest is the status by which nginx logs that the client has gone.
const StatusClientClosedRequest = 499

// SetNotAppendXFF returns ctx.
func SetNotAppendXFF(ctx context.Context) context.Context { return ctx }

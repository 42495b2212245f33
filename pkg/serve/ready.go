package serve

import (
	"io"
	"net/http"
	"sync/atomic"
)

// ReadyPath is what a load balancer asks each replica of a service. Like all
// below /internal/ it is not for outside.
const ReadyPath = "/internal/ready"

// Ready adds the answer to GET ReadyPath: 200, whatever the service's stores do.
// Replicas share them, so that a replica that cannot reach one is no worse than
// the others. Until a service has a handler, and while it leaves, the answer is
// 503.
func Ready(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asksReady(r) {
			next.ServeHTTP(w, r)
			return
		}
		writeReady(w, http.StatusOK, `{"status":"ok"}`)
	})
}

func asksReady(r *http.Request) bool {
	return r.URL.Path == ReadyPath && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

func writeReady(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// leaving is a handler that lets its clients go once leave is set: it is not
// ready, and every answer closes its connection. A client that keeps idle
// connections then has none on which it could send a request in the instant in
// which the server closes it.
type leaving struct {
	next  http.Handler
	leave atomic.Bool
}

// ServeHTTP implements http.Handler.
func (l *leaving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.leave.Load() {
		w.Header().Set("Connection", "close")
		if asksReady(r) {
			writeReady(w, http.StatusServiceUnavailable, `{"status":"leaving"}`)
			return
		}
	}
	l.next.ServeHTTP(w, r)
}

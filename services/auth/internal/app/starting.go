package app

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/pforte/pforte/pkg/serve"
)

// heldUntil lets requests wait for the first admin, whose password takes a moment
// to be hashed: only at the first start, and not those that ask for our health.
func heldUntil(bootstrapped <-chan struct{}, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			select {
			case <-bootstrapped:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
}

// starting answers 503 until the service is ready, so that its address is taken
// from the beginning, and then hands over.
type starting struct{ ready atomic.Pointer[http.Handler] }

func (s *starting) set(h http.Handler) { s.ready.Store(&h) }

// ServeHTTP implements http.Handler.
func (s *starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := s.ready.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Retry-After", "1")
	h.Set(serve.RequestIDHeader, serve.RequestID(r))
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"error":"Der Dienst startet gerade. Bitte gleich erneut versuchen.","code":503}`)
}

package serve

import (
	"io"
	"net/http"
)

// Admin is the handler of a program's internal address: GET /livez says that
// the process runs, whatever its stores do, and GET /metrics is the given
// handler. It must not be reachable from outside.
func Admin(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	})
	mux.Handle("GET /metrics", metrics)
	return mux
}

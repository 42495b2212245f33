package bare

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Sizes of a 402 of the verifier, in bytes.
const (
	headerSize = 2500
	bodySize   = 620
)

// Serve answers on addr until ctx ends. GET /health says when it does.
func Serve(ctx context.Context, addr string) error {
	header, body := strings.Repeat("x", headerSize), bytes.Repeat([]byte("x"), bodySize)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Payment-Required", header)
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write(body)
	})
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// Sizes of a 402 of the verifier, in bytes.
const (
	headerSize = 2500
	bodySize   = 620
)

// serve answers requests at addr in this process until ctx ends.
func serve(ctx context.Context, addr string, handler http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // until it is closed
	return nil
}

// nothing is a handler that does nothing: it reads what it is sent and returns
// the same bytes always, as many as the paywall. It costs what HTTP costs.
func nothing() http.Handler {
	header, body := strings.Repeat("x", headerSize), []byte(strings.Repeat("x", bodySize))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Payment-Required", header)
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write(body)
	})
}

// facilitator is one that accepts every payment at once, without a chain.
func facilitator() http.Handler {
	var settled atomic.Int64
	mux := http.NewServeMux()
	answer := func(pattern string, body func() string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body())
		})
	}
	answer("GET /supported", func() string {
		return fmt.Sprintf(`{"kinds":[{"x402Version":2,"scheme":"exact","network":%q}],"extensions":[],"signers":{}}`, layout.Network)
	})
	answer("POST /verify", func() string { return fmt.Sprintf(`{"isValid":true,"payer":%q}`, payer) })
	answer("POST /settle", func() string {
		return fmt.Sprintf(`{"success":true,"transaction":"0x%064x","network":%q,"payer":%q}`, settled.Add(1), layout.Network, payer)
	})
	return mux
}

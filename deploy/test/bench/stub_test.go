package bench

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/client"
)

// facilitator accepts every payment at once, without a chain, and counts how often
// each was settled.
type facilitator struct {
	mu      sync.Mutex
	settled map[string]int // by nonce
}

// authorized finds the nonce of a payment.
var authorized = regexp.MustCompile(`"nonce":"(0x[0-9a-f]{64})"`)

// serve answers at the address of the world's facilitator.
func (f *facilitator) serve(w *world) {
	buyer := client.NewAccount(layout.PayerKey).Address
	mux := http.NewServeMux()
	answer := func(pattern string, body func(request []byte) string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			request, _ := io.ReadAll(r.Body) // one that breaks off names no payment
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body(request))
		})
	}
	answer("GET /supported", func([]byte) string {
		return fmt.Sprintf(`{"kinds":[{"x402Version":2,"scheme":"exact","network":%q}],"extensions":[],"signers":{}}`, layout.Network)
	})
	answer("POST /verify", func([]byte) string { return fmt.Sprintf(`{"isValid":true,"payer":%q}`, buyer) })
	answer("POST /settle", func(request []byte) string {
		f.mu.Lock()
		defer f.mu.Unlock()
		if nonce := authorized.FindSubmatch(request); nonce != nil {
			f.settled[string(nonce[1])]++
		}
		return fmt.Sprintf(`{"success":true,"transaction":"0x%064x","network":%q,"payer":%q}`, len(f.settled), layout.Network, buyer)
	})
	l, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", w.Facilitator)
	w.must(err)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	w.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // until it is closed
}

// settlements returns how often each payment was settled, by nonce.
func (f *facilitator) settlements() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.settled)
}

package bench

import (
	"errors"
	"net/http"
	"runtime"
	"sync"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/x402"
)

// payments returns requests that buy, each with a payment of its own.
func (w *world) payments(addr string, n int) [][]byte {
	offer, err := client.Post(w.Context(), "http://"+addr+verifyPath, w.order).Challenge()
	w.must(err)
	buyer := client.NewAccount(layout.PayerKey)
	requests, faults := make([][]byte, n), make([]error, n)
	var all sync.WaitGroup
	for core := range runtime.NumCPU() {
		all.Go(func() {
			for i := core; i < n; i += runtime.NumCPU() {
				var payment client.Payment
				authorization, err := buyer.Authorize(offer)
				if err == nil {
					payment, err = buyer.Sign(offer, x402.V2, authorization)
				}
				requests[i], faults[i] = request(http.MethodPost, verifyPath, w.order, http.Header{payment.Header: {payment.Value}}), err
			}
		})
	}
	all.Wait()
	w.must(errors.Join(faults...))
	return requests
}

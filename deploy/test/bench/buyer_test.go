package bench

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/x402"
)

// payments returns requests that buy, each with a payment of its own.
func (w *world) payments(addr string, n int) [][]byte {
	return w.signed(addr, n, func(p client.Payment) ([]byte, error) {
		return request(http.MethodPost, w.path, w.order, http.Header{p.Header: {p.Value}}), nil
	})
}

// toolPayments returns calls of a tool that buy the same, each with a payment of its own.
func (w *world) toolPayments(addr string, n int) [][]byte {
	return w.signed(addr, n, func(p client.Payment) ([]byte, error) {
		payment, err := base64.StdEncoding.DecodeString(p.Value)
		arguments := `{"chain":"base",` + strings.TrimPrefix(w.order, "{")
		return toolCall("verify_transaction", arguments, fmt.Sprintf(`{"x402/payment":%s}`, payment)), err
	})
}

// toolCall returns the bytes of a call of a tool (Model Context Protocol).
func toolCall(name, arguments, meta string) []byte {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":%s}}`, name, arguments, meta)
	return request(http.MethodPost, "/mcp", body, http.Header{"Accept": {"application/json, text/event-stream"}})
}

// signed returns requests, each with a payment of its own for the order.
func (w *world) signed(addr string, n int, call func(client.Payment) ([]byte, error)) [][]byte {
	offer, err := client.Post(w.Context(), "http://"+addr+w.path, w.order).Challenge()
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
				if err == nil {
					requests[i], err = call(payment)
				}
				faults[i] = err
			}
		})
	}
	all.Wait()
	w.must(errors.Join(faults...))
	return requests
}

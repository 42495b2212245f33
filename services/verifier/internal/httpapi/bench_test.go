package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// BenchmarkUnpaidCall is the 402 without the network.
func BenchmarkUnpaidCall(b *testing.B) {
	w := open(b, nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			request := httptest.NewRequest(http.MethodPost, base, strings.NewReader(goodBody))
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			w.handler.ServeHTTP(recorder, request)
			if recorder.Code != http.StatusPaymentRequired {
				b.Fatal(recorder.Code)
			}
		}
	})
}

// BenchmarkPaidCall is a sale with a facilitator that answers at once, kept
// evidence and a ledger on disk.
func BenchmarkPaidCall(b *testing.B) {
	benchmarkSales(b, func(payload x402.Payload) (*http.Request, error) {
		request := httptest.NewRequest(http.MethodPost, base, strings.NewReader(goodBody))
		request.Header.Set("Content-Type", "application/json")
		header, err := x402.Encode(payload)
		request.Header.Set(x402.HeaderPaymentSignature, header)
		return request, err
	})
}

// BenchmarkPaidCallOfATool is the same sale by MCP.
func BenchmarkPaidCallOfATool(b *testing.B) {
	benchmarkSales(b, func(payload x402.Payload) (*http.Request, error) {
		call := message("verify_transaction", goodBody, map[string]any{"x402/payment": payload})
		request := httptest.NewRequest(http.MethodPost, toolsPath, strings.NewReader(call))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		return request, nil
	})
}

// BenchmarkStatus is the free question about a transaction that was sold.
func BenchmarkStatus(b *testing.B) {
	w := open(b, nil)
	w.buy("1").wantReceipt(w)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			recorder := httptest.NewRecorder()
			w.handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/v1/status/base/"+recordedTx, nil))
			if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), `"final"`) {
				b.Fatal(recorder.Code, recorder.Body)
			}
		}
	})
}

// benchmarkSales sells to callers, each call with a payment of its own.
func benchmarkSales(b *testing.B, call func(x402.Payload) (*http.Request, error)) {
	b.Helper()
	for _, callers := range []int{1, 64, -1, -64} { // negative: with a log of receipts
		name := fmt.Sprintf("%d callers", callers)
		o := ledger.Options{Now: time.Now}
		if callers < 0 {
			callers = -callers
			name = fmt.Sprintf("%d callers with a log", callers)
			o.Log = true
		}
		b.Run(name, func(b *testing.B) {
			ledger, err := ledger.Open(context.Background(), "sqlite:"+filepath.Join(b.TempDir(), "ledger.db"), o)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = ledger.Close() })
			w := open(b, func(o *paywall.Options) {
				o.Ledger, o.Now, o.Heartbeat, o.FreeSettlements = ledger, time.Now, time.Second, 1<<30
			})
			w.now = time.Now()
			var nonce atomic.Int64
			b.SetParallelism(callers)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					payload := paymenttest.PayloadV2(w.offer(), paymenttest.Authorization(fmt.Sprintf("%x", nonce.Add(1)), time.Now()))
					request, err := call(payload)
					if err != nil {
						b.Fatal(err)
					}
					recorder := httptest.NewRecorder()
					w.handler.ServeHTTP(recorder, request)
					if recorder.Code != http.StatusOK || strings.Contains(recorder.Body.String(), `"isError":true`) {
						b.Fatal(recorder.Body)
					}
				}
			})
		})
	}
}

// BenchmarkCheckOfALargeReceipt is the free call that takes most to parse.
func BenchmarkCheckOfALargeReceipt(b *testing.B) {
	for name, call := range largeReceipts() {
		b.Run(name, func(b *testing.B) {
			w := open(b, func(o *paywall.Options) { o.AttemptsPerAddress = 1 << 30 })
			b.SetBytes(int64(len(call)))
			b.ReportAllocs()
			for b.Loop() {
				w.serveLarge(call)
			}
		})
	}
}

// largeReceipts returns calls of check_receipt with as much as fits.
func largeReceipts() map[string]string {
	members := make([]string, 24000)
	for i := range members {
		members[i] = fmt.Sprintf(`"%05d":0`, i)
	}
	node := `"0x` + strings.Repeat("ab", 532) + `"`
	proof := `{"receipt":{},"signature":{},"proof":[` + strings.Repeat(node+",", 220) + node + `]}`
	quoted, err := json.Marshal(proof)
	if err != nil {
		panic(err)
	}
	return map[string]string{
		"members": message("check_receipt", `{"answer":{`+strings.Join(members, ",")+`}}`, nil),
		"proof":   message("check_receipt", `{"answer":`+proof+`}`, nil),
		"text":    message("check_receipt", `{"answer":`+string(quoted)+`}`, nil),
	}
}

// serveLarge sends a call without the network.
func (w *world) serveLarge(call string) {
	request := httptest.NewRequest(http.MethodPost, toolsPath, strings.NewReader(call))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), `malformed`) {
		w.Fatal(recorder.Code, recorder.Body)
	}
}

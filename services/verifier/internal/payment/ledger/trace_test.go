package ledger

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func TestTrace_ARefusalIsNoFailure(t *testing.T) {
	var mu sync.Mutex
	var sent bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&sent, r.Body)
	}))
	defer collector.Close()
	tracer, err := tracing.Start(t.Context(), tracing.Options{
		Settings: tracing.Settings{Endpoint: collector.URL, Protocol: "http/protobuf", Exporter: "otlp"}, Service: "verifier", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := tracer.Request(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), http.MethodPost, "/")
	l := openFile(t)
	if _, _, err := l.Begin(ctx, payment.Key{Nonce: "1"}, "me", payment.Settlement{Month: "2026-11", Limit: 1}); !errors.Is(err, payment.ErrLost) {
		t.Errorf("got %v", err)
	}
	span.Answered(http.StatusOK)
	tracer.Stop(t.Context())
	mu.Lock()
	defer mu.Unlock()
	if !bytes.Contains(sent.Bytes(), []byte("sql write payment")) || bytes.Contains(sent.Bytes(), []byte("error.type")) {
		t.Errorf("sent was %q", sent.Bytes())
	}
}

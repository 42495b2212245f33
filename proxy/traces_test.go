package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// foreign is a trace that a client wants to belong to.
const foreign = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// foreignTraces are headers that a client could send.
var foreignTraces = []string{"Traceparent", foreign, "Tracestate", "k=hunter2", "Baggage", "k=hunter2"}

// collector keeps what is sent to it, unread.
func collector(t *testing.T) (at *upstream, sent func() []byte) {
	t.Helper()
	var mu sync.Mutex
	var all bytes.Buffer
	at = stand(t, "collector", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&all, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	return at, func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(all.Bytes())
	}
}

func TestTrace_BeginsAtTheProxyWithACollector(t *testing.T) {
	t.Parallel()
	at, sent := collector(t)
	h := openSite(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": at.URL, "OTEL_BSP_SCHEDULE_DELAY": "50"})
	h.request(t, "GET", "/v1/things?token=hunter2", "", append(foreignTraces, "Cookie", "svc.sid=hunter2", "X-Request-Id", "known")...)
	got := h.verifier.last(t).Header
	trace, ok := strings.CutPrefix(got.Get("Traceparent"), "00-")
	if !ok || strings.Contains(foreign, trace[:32]) || got.Get("Tracestate")+got.Get("Baggage") != "" {
		t.Fatalf("the service got %v", got)
	}
	h.request(t, "GET", "/api/v1/app", "", "Cookie", "svc.sid=member")
	if guard := h.auth.last(t).Header.Get("Traceparent"); guard == "" || guard[:35] != h.app.last(t).Header.Get("Traceparent")[:35] {
		t.Errorf("the guard's request is in the trace %q", guard)
	}
	if err := h.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-h.ended // what is left is sent before
	id, err := hex.DecodeString(trace[:32])
	if err != nil {
		t.Fatal(err)
	}
	spans := sent()
	for what, want := range map[string][]byte{"the trace": id, "the program": []byte("proxy"), "the request's id": []byte("known")} {
		if !bytes.Contains(spans, want) {
			t.Errorf("%s is not in %q", what, spans)
		}
	}
	if bytes.Contains(spans, []byte("hunter2")) {
		t.Errorf("a secret is in %q", spans)
	}
	if !strings.Contains(h.log.String(), trace[:32]) {
		t.Errorf("the log does not name the trace:\n%s", h.log)
	}
}

func TestTrace_IsNotPassedOnWithoutACollector(t *testing.T) {
	t.Parallel()
	at, sent := collector(t)
	for name, settings := range map[string]map[string]string{
		"nothing is set": nil,
		"none":           {"OTEL_EXPORTER_OTLP_ENDPOINT": at.URL, "OTEL_TRACES_EXPORTER": "none"},
		"disabled":       {"OTEL_EXPORTER_OTLP_ENDPOINT": at.URL, "OTEL_SDK_DISABLED": "True"},
	} {
		h := openSite(t, settings)
		h.request(t, "GET", "/v1/things", "", foreignTraces...)
		got := h.verifier.last(t).Header
		if got.Get("Traceparent")+got.Get("Tracestate")+got.Get("Baggage") != "" {
			t.Errorf("%s: the service got %v", name, got)
		}
		h.close()
	}
	if len(sent()) != 0 || len(at.received()) != 0 {
		t.Errorf("%d bytes were sent", len(sent()))
	}
}

func TestTrace_AProxyInFrontMayBeginIt(t *testing.T) {
	t.Parallel()
	h := openSite(t, map[string]string{"TRUSTED_PROXIES": "127.0.0.1/32"})
	h.request(t, "GET", "/v1/things", "", foreignTraces...)
	if got := h.verifier.last(t).Header.Get("Traceparent"); got != foreign {
		t.Errorf("the service got %q", got)
	}
}

func TestTrace_AnUnreachableCollectorDisturbsNoRequest(t *testing.T) {
	t.Parallel()
	h := openSite(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:" + freePort(t)})
	for range 20 {
		if got := h.request(t, "GET", "/v1/things", ""); got.StatusCode != http.StatusOK {
			t.Errorf("got %d", got.StatusCode)
		}
	}
}

// Package tracingtest is a collector of traces for tests: it speaks OTLP over
// HTTP and keeps what it gets.
package tracingtest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one span as it was sent.
type Span struct {
	// Service is the program that made it.
	Service string
	Name    string
	// Trace, ID and Parent are hexadecimal; Parent is "" at the root.
	Trace, ID, Parent string
	// Attributes holds as text every attribute of the span, its program and its events, and the
	// message of its status.
	Attributes map[string]string
	Failed     bool
	Took       time.Duration
}

// Collector keeps spans.
type Collector struct {
	// URL is for OTEL_EXPORTER_OTLP_ENDPOINT.
	URL string
	// Requests counts what came, whatever it was; Refuse makes the collector answer 500.
	Requests atomic.Int64
	Refuse   atomic.Bool

	mu    sync.Mutex
	spans []Span
	heads []http.Header
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Spans returns all spans accepted so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Headers returns the headers of each message that was accepted.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header(nil), c.heads...)
}

// Wait returns the spans once holds is true of them. It fails the test when that takes longer than within.
func (c *Collector) Wait(t testing.TB, within time.Duration, holds func([]Span) bool) []Span {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		spans := c.Spans()
		if holds(spans) {
			return spans
		}
		if time.Now().After(deadline) {
			for _, s := range spans {
				t.Logf("%s %s: %s (parent %s) %v", s.Trace, s.Service, s.Name, s.Parent, s.Attributes)
			}
			t.Fatalf("after %s the spans are not as expected", within)
		}
	}
}

func (c *Collector) receive(w http.ResponseWriter, r *http.Request) {
	c.Requests.Add(1)
	var message collector.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &message)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || c.Refuse.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads = append(c.heads, r.Header)
	for _, resource := range message.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, read(resource.GetResource().GetAttributes(), span))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func read(program []*common.KeyValue, s *trace.Span) Span {
	attributes := map[string]string{}
	for _, a := range append(program, s.GetAttributes()...) {
		attributes[a.GetKey()] = text(a.GetValue())
	}
	for _, event := range s.GetEvents() {
		for _, a := range event.GetAttributes() {
			attributes["event "+event.GetName()+" "+a.GetKey()] = text(a.GetValue())
		}
	}
	if message := s.GetStatus().GetMessage(); message != "" {
		attributes["status message"] = message
	}
	return Span{
		Service: attributes["service.name"], Name: s.GetName(), Attributes: attributes,
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()),
		Failed: s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR,
		Took:   time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano()),
	}
}

func text(v *common.AnyValue) string {
	if s, ok := v.GetValue().(*common.AnyValue_StringValue); ok {
		return s.StringValue
	}
	return v.String()
}

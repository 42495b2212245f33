package tracing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package as the maker of the spans.
const scope = "github.com/pforte/pforte/pkg/tracing"

// Options is what a Tracer needs. All fields are required except where
// noted.
type Options struct {
	Settings Settings
	// Service and Version name the program.
	Service, Version string
	// Trusted reports whether a request comes from a proxy whose traceparent is
	// accepted; nil means that none is. Any other request begins a new trace.
	Trusted func(*http.Request) bool
	Log     *slog.Logger
}

// Tracer begins traces and sends them in the background. A nil one does nothing
// and may be used as any other.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	trusted  func(*http.Request) bool
}

// Start returns a Tracer, or nil when the settings name no collector. The
// collector may be down: spans that it does not accept are dropped, which is
// logged at most once a minute.
func Start(ctx context.Context, o Options) (*Tracer, error) {
	s := o.Settings
	if !s.on() {
		return nil, nil //nolint:nilnil // off is no error
	}
	headers, err := s.headers()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(s.url()), otlptracehttp.WithHeaders(headers))
	if err != nil {
		return nil, fmt.Errorf("tracing: create the exporter: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.namespace", "pforte"), attribute.String("service.name", o.Service),
			attribute.String("service.version", o.Version), attribute.String("service.instance.id", rand.Text())),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tracing: describe this program: %w", err), exporter.Shutdown(ctx))
	}
	if o.Trusted == nil {
		o.Trusted = func(*http.Request) bool { return false }
	}
	otel.SetErrorHandler(&errorLog{log: o.Log, url: s.url(), now: time.Now})
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), trusted: o.Trusted}, nil
}

// stopWithin bounds how long a stop waits for the collector.
const stopWithin = 3 * time.Second

// Stop sends what is left, for a few seconds at most, also when ctx has ended.
func (t *Tracer) Stop(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// errorLog logs the errors of the exporter.
type errorLog struct {
	log *slog.Logger
	url string
	now func() time.Time

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (l *errorLog) Handle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); now.Sub(l.last) >= time.Minute {
		l.last = now
		l.log.Warn("traces are lost", "error", strings.ReplaceAll(err.Error(), l.url, "the collector"))
	}
}

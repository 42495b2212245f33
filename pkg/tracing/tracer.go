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
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package as the maker of the spans.
const scope = "github.com/pforte/pforte/pkg/tracing"

// Options is what a Tracer needs. All fields but Trusted are required.
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

// Start returns a Tracer, or nil when the settings turn traces off. The
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
	otel.SetErrorHandler(logErrors(o.Log, s.url()))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), trusted: o.Trusted}, nil
}

// stopWithin bounds how long a stop waits for the collector.
const stopWithin = 3 * time.Second

// Stop sends what is left, for stopWithin at most, also when ctx has ended.
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

// logErrors returns a handler that logs the errors of the exporter, at most one a minute.
func logErrors(log *slog.Logger, url string) otel.ErrorHandlerFunc {
	var mu sync.Mutex
	var last time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) >= time.Minute {
			last = now
			log.Warn("traces are lost", "error", strings.ReplaceAll(err.Error(), url, "the collector"))
		}
	}
}

// Span is one step of a request under way. The zero Span records nothing.
type Span struct{ span trace.Span }

// Request begins the span of a request by its method and its route's pattern.
func (t *Tracer) Request(r *http.Request, method, route string) (context.Context, Span) {
	ctx := r.Context()
	if t == nil {
		return ctx, Span{}
	}
	if t.trusted != nil && t.trusted(r) {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	ctx, span := t.tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route)))
	return ctx, Span{span}
}

// Call begins the span of one call to another program or a database. system is the kind of program,
// operation what it is to do. Outside of a traced request Call does nothing and returns ctx.
func Call(ctx context.Context, system, operation string) (context.Context, Span) {
	return begin(ctx, trace.SpanKindClient, system, operation)
}

// Step is Call for one step within this program; system is the part that takes it.
func Step(ctx context.Context, system, operation string) (context.Context, Span) {
	return begin(ctx, trace.SpanKindInternal, system, operation)
}

func begin(ctx context.Context, kind trace.SpanKind, system, operation string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, system+" "+operation, trace.WithSpanKind(kind))
	return ctx, Span{span}
}

// Failed returns what Span.End takes: "" for nil, and "failed" for an error.
func Failed(err error) string {
	if err == nil {
		return ""
	}
	return "failed"
}

// Set sets an attribute of the span.
func (s Span) Set(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Answered sets the status of the answer to a request, and ends its span. From
// 500 on it is a failure.
func (s Span) Answered(status int) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// End ends the span. failure is "" or one of our names for what failed.
func (s Span) End(failure string) {
	if s.span == nil {
		return
	}
	if failure != "" {
		s.span.SetAttributes(attribute.String("error.type", failure))
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// ID returns the id of the trace that ctx belongs to, 32 hexadecimal digits, or "".
func ID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span.TraceID().String()
	}
	return ""
}

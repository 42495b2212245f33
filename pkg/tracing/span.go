package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Span is one step of a request under way. The zero Span records nothing.
type Span struct{ span trace.Span }

// Request begins the span of a request by its method and its route's pattern.
func (t *Tracer) Request(r *http.Request, method, route string) (context.Context, Span) {
	ctx := r.Context()
	if t == nil {
		return ctx, Span{}
	}
	if t.trusted(r) {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	ctx, span := t.tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route)))
	return ctx, Span{span}
}

// Call begins the span of one call to another program: which kind of program, and
// which operation. Outside of a traced request it does nothing and returns ctx.
func Call(ctx context.Context, system, operation string) (context.Context, Span) {
	return begin(ctx, trace.SpanKindClient, system, operation)
}

// Step begins the span of one step within this program.
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

// Failed returns "" for nil and "failed" for any other error.
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

// ID is the id of the trace that ctx belongs to, 32 hexadecimal digits, or "".
func ID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span.TraceID().String()
	}
	return ""
}

// Package tracing follows one request through a program, with OpenTelemetry: a span for the
// request, and others for its calls to other programs and for steps within the program.
//
// Only this package and tracingtest import libraries of OpenTelemetry. Traces are off unless
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. When they are off,
// Start returns nil, nothing runs, and what other packages call costs one lookup in the context.
//
// # What is in a span
//
// Names and outcomes that the code itself chooses: the route's pattern, a
// status, a method of a node, the kind of a failure as in the metrics. Besides, the host
// of a node and the request's id. Never any other header, a cookie, a body, a path, a
// query, an address with a key in it, or the text of an error.
//
// # Propagation
//
// A traceparent is accepted from trusted proxies only, and none is sent: nodes and
// facilitators are operated by others. Baggage is neither read nor written.
package tracing

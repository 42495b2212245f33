// Package tracing follows one request through the programs, with OpenTelemetry:
// a span for the request itself and one for each question that it puts to
// somebody else.
//
// It owns the OpenTelemetry library: nobody else imports it. It is off unless
// OTEL_EXPORTER_OTLP_ENDPOINT says where spans go; then Start gives nil, nothing
// runs, and what the rest of the house calls costs a look into the context.
//
// # What is in a span
//
// Names and outcomes that the code itself chooses: the route's pattern, a
// status, a method of a node, the word for a failure that the metrics have too.
// Never a header, a cookie, a body, a path, a query, an address with a key in
// it, or the text of an error.
//
// # Who is told
//
// A traceparent is taken over from a trusted proxy and from nobody else, and
// none is sent: nodes and facilitators are strangers, and what belongs together
// is none of their business. Baggage is neither read nor written.
package tracing

// Package tracingtest is a collector of traces for tests: it speaks OTLP over
// HTTP and keeps what it gets.
package tracingtest

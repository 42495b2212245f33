// Package httpapi serves the verifier over HTTP: its routes, the reading of
// requests, the paid operations in their order (VERIFIER-4.1), the headers
// and bodies of the payment protocol, the documents that describe the service,
// and the one table from errors to answers.
//
// It decides nothing about payments or evidence: those are packages payment and
// verification.
package httpapi

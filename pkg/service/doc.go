// Package service is what the programs auth and verifier have in common, so that
// both start, configure, log, measure, answer errors and stop alike.
//
//   - program.go: a table of commands with its help and exit codes.
//   - service.go: the life of a service. It listens first and answers 503 until its
//     stores are open, then serves, with the bounds that a server on the open
//     network needs, and finishes the requests under way when it is stopped.
//   - http.go: what the requests of a router pass: id, trace, line in the log
//     and metrics; and how an error becomes an answer.
//
// What else is served, and the texts and bodies of its answers, belong to the services.
package service

// Package bare is a server of the standard library that does nothing: it reads
// what it is sent and answers the same bytes always, as many as the paywall. What
// it takes for an answer is what HTTP takes.
package bare

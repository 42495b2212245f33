// Package facilitator is a payment facilitator that says yes to everything at
// once. It shares the processors with the sellers that are measured, so it reads
// no more of a request than its end and answers with ready-made bytes.
package facilitator

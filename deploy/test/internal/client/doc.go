// Package client calls a stack as its users do: it logs in and keeps the session,
// reads offers of x402 and signs payments, and reads the chain past every
// service. It is for programs that test and measure the stack.
package client

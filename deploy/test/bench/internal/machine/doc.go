// Package machine says what the kernel knows: how much processor time and
// memory a process has used, and what machine this is.
package machine

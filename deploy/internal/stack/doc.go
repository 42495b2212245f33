// Package stack starts the programs of a stack, waits until they answer, and
// stops them: for the local stack and for the journeys through it.
//
// It owns processes, their logs and their ports. A program's environment belongs to
// the caller. Nothing that it starts outlives it: each
// program is a process group of its own, stopped in reverse order, and on Linux
// the kernel ends it when this process dies in whatever way.
package stack

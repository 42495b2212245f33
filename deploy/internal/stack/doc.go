// Package stack starts the programs of a stack, waits until they answer, and
// stops them: for the local stack, and for tests and measurements of it.
//
// It owns processes and their logs, and checks that ports are free. A program's
// environment belongs to the caller. Each program is a process group of its own.
// They are stopped in reverse order, and on Linux the kernel kills each program
// when this process dies in whatever way.
package stack

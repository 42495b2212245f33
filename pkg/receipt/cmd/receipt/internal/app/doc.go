// Package app is the command receipt without the process around it: Run takes
// arguments and streams and returns the exit code. What makes a receipt valid is
// package receipt's; this one reads files and addresses, bounded, and puts the
// result into plain words.
package app

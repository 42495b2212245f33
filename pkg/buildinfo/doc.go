// Package buildinfo returns the version of a program.
package buildinfo

// Package buildinfo tells which version of Pforte a program is. It knows nothing
// of what the program does with that.
package buildinfo

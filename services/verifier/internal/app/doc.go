// Package app is the program verifier: its commands, its settings and stores, and
// how its packages are connected.
package app

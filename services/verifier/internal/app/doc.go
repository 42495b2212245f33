// Package app is the program verifier: it reads the settings, opens what they
// name, wires the rooms together, and serves; or it carries out one command at
// the terminal.
package app

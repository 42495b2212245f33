// Package app is the program auth: its commands, its settings and stores, and
// how its packages are connected. It holds no rule.
package app

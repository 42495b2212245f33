// Package app is the program auth: its commands, and how its parts are put
// together.
//
// It is the only package that reads settings, opens stores and knows all the
// others. It holds no rule.
package app

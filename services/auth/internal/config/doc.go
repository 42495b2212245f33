// Package config holds the documented settings of auth: their names, defaults
// and meaning, and the checks that need no open store.
//
// It reads them from the environment. Only package app sees a Config; every other
// package gets plain values.
package config

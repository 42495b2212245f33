// Package config holds the documented settings of auth: their names, defaults
// and meaning, and the checks that need no open store.
//
// It owns reading them from the environment. Only package app sees a Config;
// every other package is given plain values.
package config

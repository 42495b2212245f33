// Package config holds every setting of the verifier, documented. Only package
// app sees it; the README's table is made from it.
package config

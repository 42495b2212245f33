// Package ratelimittest holds what every ratelimit.Store must do, as tests that
// a store's own tests run against it, through a Limiter. It is for _test.go
// files only.
package ratelimittest

//go:build race

package httpapi_test

// timingCost is low: the race detector makes bcrypt twenty times as slow.
const timingCost = 6

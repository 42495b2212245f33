//go:build race

package app_test

// stormCost is less than the 12 of AUTH-8.1, because the race detector makes
// bcrypt twenty times as slow.
const stormCost = 6

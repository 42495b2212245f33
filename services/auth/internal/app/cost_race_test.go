//go:build race

package app_test

// stormCost is less than the contract's 12, because the race detector makes
// bcrypt twenty times as slow.
const stormCost = 6

//go:build !race

package app_test

// stormCost is the contract's.
const stormCost = 12

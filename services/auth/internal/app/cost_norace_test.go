//go:build !race

package app_test

// stormCost is that of AUTH-8.1.
const stormCost = 12

//go:build !race

package httpapi_test

// timingCost is the cost of the contract (section 5).
const timingCost = 12

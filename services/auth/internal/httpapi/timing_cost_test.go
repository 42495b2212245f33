//go:build !race

package httpapi_test

// timingCost is the cost of AUTH-8.1.
const timingCost = 12

package main

import (
	"runtime/debug"
	"testing"
)

func TestLimitMemory_IsTheOperatorsToSet(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "1GiB") // Go reads it when the program starts
	limitMemory()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the operator's limit is replaced by %d", got)
	}
	t.Setenv("GOMEMLIMIT", "")
	limitMemory()
	if got := debug.SetMemoryLimit(-1); got != memoryLimit {
		t.Errorf("the limit is %d, want %d", got, int64(memoryLimit))
	}
}

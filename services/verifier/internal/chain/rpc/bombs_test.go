package rpc

import (
	"runtime"
	"strings"
	"testing"
)

func TestBatch_OfTooManyAnswersIsGarbage(t *testing.T) {
	body := []byte("[" + strings.Repeat("{},", 1<<20) + "{}]")
	var err error
	if took := allocated(func() { _, _, err = decodeReplies(body) }); err == nil || took > 1<<20 {
		t.Errorf("took %d MiB: %v", took>>20, err)
	}
}

func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

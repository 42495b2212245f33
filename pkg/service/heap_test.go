package service_test

import (
	"net/http"
	"runtime"
	"testing"
)

func TestAServerCollectsGarbageInBulk(t *testing.T) {
	_, stop, _ := start(t, 0, http.NotFoundHandler())
	defer stop()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.NextGC-m.HeapAlloc < 16<<20 {
		t.Errorf("the next collection is after %d bytes", m.NextGC-m.HeapAlloc)
	}
}

package httpapi

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCompress_KeepsItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, long := newCompressor(), []byte(strings.Repeat("a", minCompressed+1))
		compressed := func(body []byte) bool {
			h := http.Header{"Etag": {`"a"`}}
			got := z.compress(h, []string{"gzip"}, body)
			packed, tag := h.Get("Content-Encoding") == "gzip", `"a"`
			if packed {
				tag = `W/"a"` // the strong one is of the body itself
			}
			if packed != (len(got) < len(body)) || h.Get("Etag") != tag {
				t.Errorf("%d bytes of %d with %v", len(got), len(body), h)
			}
			return packed
		}
		mixed := make([]byte, 2*minCompressed)
		_, _ = rand.Read(mixed)
		if compressed(mixed) || compressed(long[1:]) {
			t.Error("a body is compressed that does not get smaller, or is short")
		}
		time.Sleep(time.Second)
		for range compressedAtOnce { // it would wait for ever for one more
			z.places <- struct{}{}
		}
		if compressed(long) {
			t.Error("one is compressed beside as many as may be")
		}
		<-z.places
		for i := range compressedASecond {
			if !compressed(long) {
				t.Fatalf("answer %d of a second is not compressed", i)
			}
		}
		if compressed(long) {
			t.Error("one more is compressed in a second")
		}
		time.Sleep(time.Second / compressedASecond)
		if !compressed(long) {
			t.Error("later none is compressed")
		}
	})
}

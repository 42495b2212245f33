package rpc

import (
	"bytes"
	"testing"

	"golang.org/x/sync/semaphore"
)

// A buffer that grew by doubling took up to twice what was accounted for.
func TestReadBody_AccountsForAllThatItTakes(t *testing.T) {
	for _, size := range []int{0, 100, 4 << 10, 33<<20 + 1} {
		r, err := reserve(t.Context(), semaphore.NewWeighted(DefaultResponseBytes), lookupBytes)
		if err != nil {
			t.Fatal(err)
		}
		body, err := readBody(bytes.NewReader(make([]byte, size)), r)
		if err != nil || len(body) != size {
			t.Fatalf("%d bytes: %d are read, %v", size, len(body), err)
		}
		if int64(cap(body)) > r.used || r.used > r.reserved {
			t.Errorf("%d bytes take %d, and %d of %d are accounted for", size, cap(body), r.used, r.reserved)
		}
	}
}

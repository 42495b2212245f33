package verification

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

func TestCache_KeepsTheLatestUsedReceipts(t *testing.T) {
	a := NewReceipts(nil, 10*size("0", make([]byte, 1000)), nil, nil)
	answer := func(i int) []byte { return bytes.Repeat([]byte{byte('0' + i)}, 1000) }
	for i := range 10 {
		a.put(fmt.Sprint(i), answer(i))
	}
	a.get("0")
	a.put("x", answer(10))
	a.put("huge", make([]byte, 1<<20))
	for key, want := range map[string]bool{"0": true, "1": false, "2": true, "9": true, "x": true, "huge": false} {
		if got, ok := a.get(key); ok != want || (ok && key == "0" && !bytes.Equal(got, answer(0))) {
			t.Errorf("%s: kept %v, want %v", key, ok, want)
		}
	}
	if a.used > a.limit || a.answers.Len() != 10 {
		t.Errorf("%d of %d bytes, %d entries", a.used, a.limit, a.answers.Len())
	}
}

func TestCache_IsSharedSafely(t *testing.T) {
	a := NewReceipts(nil, 50_000, nil, nil)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			key := fmt.Sprint(i % 30)
			a.put(key, []byte(key))
			if got, ok := a.get(key); ok && string(got) != key {
				t.Errorf("%s gave %s", key, got)
			}
		})
	}
	all.Wait()
}

package app

import (
	"context"
	"slices"
	"testing"
)

// TestOwnAddresses_AreAllFoundThoughTheFirstRequestIsCut: what is found is kept for all.
func TestOwnAddresses_AreAllFoundThoughTheFirstRequestIsCut(t *testing.T) {
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	o := &ownAddresses{settings: []string{"localhost:6379"}}
	if got := o.list(cut); !slices.Contains(got, "127.0.0.1:6379") {
		t.Errorf("found %q", got)
	}
}

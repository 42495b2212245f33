package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// A household has no chain, so that what listens on the chain's port does not matter to it.
func TestPrepare_OfAHouseholdNeedsItsOwnPortsAlone(t *testing.T) {
	addresses, err := layout.FreeAddresses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := layout.Layout{Bin: t.TempDir(), State: t.TempDir(), Addresses: addresses, Household: true}
	for _, name := range []string{"auth", "pforte-proxy"} {
		if err := os.WriteFile(filepath.Join(l.Bin, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for setting, at := range map[string]string{"": addresses.Chain, "REDIS_PORT": addresses.Redis} {
		taken, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if err := prepare(t.Context(), l); (err == nil) != (setting == "") || err != nil && !strings.Contains(err.Error(), setting) {
			t.Errorf("%q: %v", setting, err)
		}
		_ = taken.Close()
	}
}

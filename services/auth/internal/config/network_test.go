package config_test

import (
	"testing"

	"github.com/pforte/pforte/services/auth/internal/config"
)

func FuzzNetwork(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/8", "::1", "::ffff:10.0.0.0/104", " 1.2.3.4 ", "fe80::1%eth0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var n, again config.Network
		if n.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(n.String())); err != nil || again != n || n.Masked() != n.Prefix {
			t.Errorf("%q became %s, which becomes %s: %v", text, n, again, err)
		}
		if n.Addr().Is4In6() && n.Bits() >= 96 {
			t.Errorf("%q became %s: no IPv4 address is in it", text, n)
		}
	})
}

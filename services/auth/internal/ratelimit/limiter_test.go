package ratelimit_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

func TestAddressKeyIsTheAddressOrTheIPv6Network(t *testing.T) {
	for address, want := range map[string]string{
		"203.0.113.7":                 "203.0.113.7",
		"::ffff:203.0.113.7":          "203.0.113.7",
		"::ffff:cb00:7107":            "203.0.113.7",
		"2001:db8:1:2:3:4:5:6":        "2001:db8:1:2::/64",
		"2001:DB8:1:2::":              "2001:db8:1:2::/64",
		"2001:db8:1:3::1":             "2001:db8:1:3::/64",
		"fe80::1%eth0":                "fe80::/64",
		"::1":                         "::/64",
		"":                            "unknown",
		"203.0.113.7:1234":            "unknown",
		"[2001:db8::1]":               "unknown",
		"203.0.113.07":                "unknown",
		"203.0.113.7, 198.51.100.1":   "unknown",
		"unknown":                     "unknown",
		"2001:db8:1:2:3:4:5:6/64":     "unknown",
		"2001:db8:1:2:3:4:5:6:7":      "unknown",
		"1.1.1.1\r\nX-Forwarded-For:": "unknown",
	} {
		if got := ratelimit.AddressKey(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}

func FuzzAddressKey(f *testing.F) {
	for _, seed := range []string{"203.0.113.7", "::ffff:1.2.3.4", "2001:db8::1", "fe80::1%a", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		key := ratelimit.AddressKey(address)
		if key == "unknown" {
			return
		}
		ip, err := netip.ParseAddr(address)
		if err != nil {
			t.Fatalf("%q got the key %q", address, key)
		}
		if network, err := netip.ParsePrefix(key); err == nil && (network.Bits() != 64 || !network.Contains(ip.Unmap().WithZone(""))) {
			t.Errorf("%q got the key %q", address, key)
		}
	})
}

func TestALimiterNeedsAllItsParts(t *testing.T) {
	store := ratelimit.NewMemoryStore(time.Now)
	for name, make := range map[string]func() (*ratelimit.Limiter, error){
		"no store":  func() (*ratelimit.Limiter, error) { return ratelimit.New(nil, "login", 5, time.Minute) },
		"no name":   func() (*ratelimit.Limiter, error) { return ratelimit.New(store, "", 5, time.Minute) },
		"no limit":  func() (*ratelimit.Limiter, error) { return ratelimit.New(store, "login", 0, time.Minute) },
		"no window": func() (*ratelimit.Limiter, error) { return ratelimit.New(store, "login", 5, time.Microsecond) },
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// broken is a store that fails.
type broken struct{ ratelimit.Store }

var errBroken = errors.New("connection refused")

func (broken) Spend(ctx context.Context, _, _ string, _ int, _ time.Duration) (ratelimit.Count, error) {
	if _, ok := ctx.Deadline(); !ok {
		return ratelimit.Count{}, errors.New("there is no deadline")
	}
	return ratelimit.Count{Taken: true}, errBroken
}

func TestAFailingStoreAllowsNothing(t *testing.T) {
	l, err := ratelimit.New(broken{}, "login", 5, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Spend(t.Context(), "a"); !errors.Is(err, errBroken) || d.Allowed {
		t.Errorf("got %+v, %v", d, err)
	}
}

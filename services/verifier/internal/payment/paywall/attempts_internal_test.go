package paywall

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func TestAttempts_NetworksAroundAnAddress(t *testing.T) {
	for who, want := range map[string][]string{
		"2001:db8:1:2::/64": {"2001:db8:1:2::/64", "2001:db8:1::/48", "2001:db8::/32"},
		"1.2.3.4":           {"1.2.3.4", "1.2.0.0/16", "1.0.0.0/8"},
		"1.2.3.0/24":        {"1.2.3.0/24", "1.2.0.0/16", "1.0.0.0/8"},
		"invalid IP":        {"invalid IP", "invalid IP", "invalid IP"},
		"":                  {"", "", ""},
	} {
		if got := networksAround(who); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", who, got, want)
		}
	}
}

// full is an attempts of addresses that an attacker has filled from two IPv6 /48.
func full(t *testing.T) *attempts {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	a := newAttempts(func() time.Time { return now }, attemptWindow, networksAround)
	for i := range maxCounted {
		if _, err := a.spend(fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff), 2); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func TestAttempts_FullCountsMoveToAWiderNetwork(t *testing.T) {
	const limit = 2
	a := full(t)
	taken := func(format string) (n int) {
		for i := range limit*widerBy*widerBy + 1 {
			if _, err := a.spend(fmt.Sprintf(format, byte(i)), limit); err != nil {
				return n
			}
			n++
		}
		return n
	}
	for _, c := range []struct {
		from string
		want int
	}{
		{"2001:db8:1:ff%02x::/64", limit * widerBy}, // the attacker's own network
		{"2001:db8:1:fe%02x::/64", 0},
		{"2001:db8:2:ff%02x::/64", limit * widerBy}, // a neighbor's
		{"203.0.113.%d", limit * widerBy},           // another's
		{"203.0.114.%d", 0},
		{"203.1.114.%d", limit * widerBy},
	} {
		if got := taken(c.from); got != c.want {
			t.Errorf("%s: %d attempts were let in, want %d", c.from, got, c.want)
		}
	}
	if _, err := a.spend("2001:db8:0:1::/64", limit); err != nil {
		t.Errorf("an address that was counted before: %v", err)
	}

	for i := range 2 * maxNetworks { // an attacker who has a whole /32
		_, _ = a.spend(fmt.Sprintf("2001:db8:%x:ffff::/64", i+16), limit)
	}
	other := 11 // an /8 that is not in the attacker's bucket
	for a.bucket(fmt.Sprintf("%d.0.0.0/8", other)) == a.bucket("2001:db8::/32") {
		other++
	}
	if got := taken(fmt.Sprintf("%d.51.100.%%d", other)); got != limit*widerBy*widerBy {
		t.Errorf("from another network when no network can be counted: %d attempts were let in", got)
	}
	for i := range 10 * maxBuckets { // and one who has every network there is
		_, _ = a.spend(fmt.Sprintf("%x:%x:1:1::/64", 0x2000+i>>12, i&0xfff), limit)
	}
	if c := a.counts; len(c[0]) > maxCounted || len(c[1]) > maxNetworks || len(c[2]) > maxBuckets {
		t.Errorf("%d, %d and %d are counted", len(c[0]), len(c[1]), len(c[2]))
	}
}

func TestAttempts_ABucketTakesItsLimitOfAHundredAtOnce(t *testing.T) {
	a := full(t)
	for range 2 {
		var taken atomic.Int32
		var all sync.WaitGroup
		refunds := make(chan func(), 100)
		for i := range 100 {
			all.Go(func() {
				refund, err := a.spend(fmt.Sprintf("2001:db8:99:%x::/64", i), 2)
				switch {
				case err == nil:
					taken.Add(1)
					refunds <- refund
				case !errors.Is(err, payment.ErrTooMany):
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(refunds)
		if taken.Load() != 2*widerBy {
			t.Errorf("%d attempts were let in, want %d", taken.Load(), 2*widerBy)
		}
		for refund := range refunds {
			all.Go(refund)
		}
		all.Wait()
		if n := len(a.counts[1]); n != 0 {
			t.Errorf("%d networks are counted after all was given back", n)
		}
	}
}

func TestAttempts_WhatIsGivenBackIsNotCounted(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := newAttempts(func() time.Time { return now }, attemptWindow, onePayer)
	for i := range 2 * maxCounted {
		refund, err := a.spend(fmt.Sprintf("0x%x", i), 1)
		if err != nil {
			t.Fatal(err)
		}
		refund()
	}
	if len(a.counts[0]) != 0 || len(a.counts[1]) != 0 {
		t.Errorf("%d and %d are counted", len(a.counts[0]), len(a.counts[1]))
	}
	refund, err := a.spend("0x1", 1)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if _, err := a.spend("0x1", 1); err != nil {
		t.Fatal(err)
	}
	refund() // of a window that is over
	if _, err := a.spend("0x1", 1); !errors.Is(err, payment.ErrTooMany) {
		t.Errorf("got %v", err)
	}
}

// What one network takes must leave others something, however little comes.
func TestBudget_ANetworkMayTakeHalf(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	shared := newBudgets(Options{Now: func() time.Time { return now }, AttemptsPerAddress: 600})
	want := func(b *budget, want int) {
		t.Helper()
		if got := b.part(); got != want {
			t.Errorf("may take %d, not %d", got, want)
		}
	}
	want(shared.accounts, 150)
	for range 150 {
		shared.accounts.spend()
	}
	want(shared.accounts, 30)
	want(shared.checks, 150)
	for _, part := range []int{75, 37, 18, 9, 4, 2, 2} {
		shared.checks.slow(time.Second)
		want(shared.checks, part)
		now = now.Add(time.Second)
	}
	now = now.Add(quietFor)
	want(shared.checks, 4)
}

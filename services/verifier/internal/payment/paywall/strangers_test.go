package paywall_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// failing makes so many payers, the first of which is 1, whose transfers revert.
func (s *fixture) failing(payers int) {
	addresses := make([]string, payers)
	for i := range addresses {
		addresses[i] = paymenttest.Address(paymenttest.Payer(i + 1))
	}
	s.reverting(addresses...)
}

// Hosted agents share an address: who fails there is not who pays there.
func TestPaywall_FailuresAtAnAddressDoNotRefuseAKnownPayer(t *testing.T) {
	s := open(t, nil)
	s.mustBuy(s.pay("aaaa"))
	s.failing(12)
	for i := range 10 {
		if err := s.buyFrom(s.paywall, "192.0.2.1", s.payOf(i+1, fmt.Sprintf("%x", i+1))); !errors.Is(err, payment.ErrNotSettled) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	s.wantErr(s.buyFrom(s.paywall, "192.0.2.1", s.payOf(11, "b")), payment.ErrFailing)
	s.mustBuyFrom("192.0.2.1", s.pay("bbbb"))
}

// Whatever the number of addresses and keys, who never paid can waste 2 % of the month in a
// day, and a tenth in all.
func TestPaywall_StrangersWasteNoMoreThanTheirShare(t *testing.T) {
	for limit, want := range map[int]struct{ day, month int }{20: {3, 6}, 1000: {20, 100}} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			s := open(t, func(o *paywall.Options) { o.FreeSettlements = limit })
			s.clock.advance(payment.NextMonth(start).Sub(start)) // a month has its days before it
			s.mustBuy(s.pay("aaaa"))
			payers := want.month + 50
			s.failing(payers)
			failed := 0
			for day := range 8 {
				today := 0
				for i := range payers {
					address := fmt.Sprintf("2001:db8:%x::/64", i)
					err := s.buyFrom(s.paywall, address, s.payOf(i+1, fmt.Sprintf("%x", 1000*(day+1)+i)))
					var later *payment.LaterError
					switch {
					case errors.Is(err, payment.ErrNotSettled):
						today++
					case errors.Is(err, payment.ErrFailing): // the payer's own cap
					case !errors.Is(err, payment.ErrLimit), !errors.As(err, &later), later.After != 24*time.Hour:
						t.Fatalf("day %d, %d: %v", day, i, err)
					}
				}
				failed += today
				if today > want.day {
					t.Errorf("on day %d %d failed, want at most %d", day, today, want.day)
				}
				s.mustBuyFrom("2001:db8:1::/64", s.pay(fmt.Sprintf("c%x", day)))
				s.clock.advance(24 * time.Hour)
			}
			if failed != want.month {
				t.Errorf("%d of %d failed, want %d", failed, limit, want.month)
			}
		})
	}
}

func TestPaywall_FailuresAreCountedInTheNetworkAroundAnAddress(t *testing.T) {
	for name, address := range map[string]string{"IPv6": "2001:db8:0:%x00::/64", "IPv4": "192.0.2.%d"} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(o *paywall.Options) { o.FreeSettlements = 100_000 })
			s.failing(30)
			failed := 0
			for i := range 30 {
				switch err := s.buyFrom(s.paywall, fmt.Sprintf(address, i+1), s.payOf(i+1, fmt.Sprintf("%x", i+1))); {
				case errors.Is(err, payment.ErrNotSettled):
					failed++
				case !errors.Is(err, payment.ErrFailing):
					t.Fatalf("%d: %v", i, err)
				}
			}
			if failed != 20 {
				t.Errorf("%d failed", failed)
			}
			s.mustBuyFrom("2001:db8:1::/64", s.payOf(99, "aaaa"))
		})
	}
}

// A payer is known because they have paid, not because they once did: three failures a
// month are those of a mistake.
func TestPaywall_APayerWhoFailsTooOftenIsNotKnownAnyMore(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.FreeSettlements = 10 })
	for i := range 7 {
		s.mustBuy(s.payOf(i+1, fmt.Sprintf("%x", i+1)))
	}
	s.failing(1)
	for i := range 3 {
		s.wantErr(s.buyFrom(s.paywall, "192.0.2.1", s.payOf(1, fmt.Sprintf("a%x", i))), payment.ErrNotSettled)
	}
	s.clock.advance(24 * time.Hour)
	s.wantErr(s.buyFrom(s.paywall, "192.0.2.1", s.payOf(1, "b")), payment.ErrLimit)
}

package paywall_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// An address alone is enough to send copies in a payer's name, which a facilitator may call valid.
func TestBuy_CopiesThatAreNotPlainUseUpNoAttemptsOfThePayer(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.AttemptsPerPayer = 5 })
	s.mustBuy(s.pay("aaaa"))
	for i := range 20 {
		o := s.order(s.forged(fmt.Sprintf("%x", i+1)), "other")
		o.Address = fmt.Sprintf("2001:db8:%x::/64", i)
		o.Work = func(context.Context) ([]byte, error) { return nil, errNotFound }
		if _, err := s.paywall.Buy(context.Background(), o); err == nil {
			t.Fatal("work that failed was sold")
		}
	}
	s.mustBuy(s.pay("bbbb"))
}

package paywall_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// looking opens a fixture whose paywall looks up accounts.
func looking(t *testing.T, account payment.Account, err error) *fixture {
	var sim *paymenttest.Simulator
	s := open(t, func(o *paywall.Options) {
		sim = o.Facilitator.(*paymenttest.Simulator)
		o.Accounts = sim
	})
	s.sim.OnAccount = func(string) (payment.Account, error) { return account, err }
	return s
}

func TestPaywall_RefusesAnUnfundedPayerWithoutTheFacilitator(t *testing.T) {
	for name, c := range map[string]struct {
		account payment.Account
		forged  bool
		reason  string
	}{
		"without the amount":                           {payment.Account{}, false, x402.ReasonInsufficientFunds},
		"with code and without the amount":             {payment.Account{Code: true}, false, x402.ReasonInsufficientFunds},
		"with a broken signature and no code to ask":   {payment.Account{Funded: true}, true, x402.ReasonInvalidSignature},
		"with an authorization that is spent or ended": {payment.Account{Funded: true, Used: true}, false, x402.ReasonNonceAlreadyUsed},
	} {
		t.Run(name, func(t *testing.T) {
			s := looking(t, c.account, nil)
			p := s.pay("1")
			if c.account.Used {
				s.sim.Cancel("1")
			}
			if c.forged {
				p = s.forged("1")
			}
			_, err := s.buy(p)
			var refusal *payment.Refusal
			if !errors.As(err, &refusal) || !errors.Is(err, payment.ErrRefused) || refusal.Reason != c.reason {
				t.Errorf("got %v", err)
			}
			if s.sim.Verifies != 0 || s.works.Load() != 0 || s.sim.Accounts != 1 {
				t.Errorf("%d checks, %d works, %d lookups", s.sim.Verifies, s.works.Load(), s.sim.Accounts)
			}
			if list, _ := s.ledger.List(context.Background(), payment.Filter{}); len(list) != 0 {
				t.Errorf("the ledger has %+v", list)
			}
		})
	}
}

func TestPaywall_SellsWithoutTheAccountWhenTheNodeIsAway(t *testing.T) {
	s := looking(t, payment.Account{}, errors.New("away"))
	s.mustBuy(s.pay("1"))
	s.wantTransfers(1)
}

func TestPaywall_LooksUpNoAccountOfAKnownPayer(t *testing.T) {
	s := looking(t, payment.Account{Funded: true}, nil)
	s.mustBuy(s.pay("1"))
	s.sim.OnAccount = func(string) (payment.Account, error) {
		t.Error("looked up")
		return payment.Account{}, nil
	}
	s.mustBuy(s.pay("2"))
	s.wantTransfers(2)
}

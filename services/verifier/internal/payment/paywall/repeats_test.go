package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// openContracts makes the facilitator leave open, without a transaction, what is
// signed by contracts. It returns a payment of such a payer.
func (s *fixture) openContracts() func(payer int, nonce string) payment.Payment {
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnSettleOf = func(p x402.ExactPayload, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
			if p.Signature == paymenttest.Forged {
				return refusal("invalid_exact_evm_transaction_failed"), nil
			}
			return honest(), nil
		}
	})
	return func(payer int, nonce string) payment.Payment {
		a := paymenttest.Authorization(nonce, s.clock.now())
		a.From = paymenttest.Address(paymenttest.Payer(payer))
		p := payloadV2(a)
		p.Payload.Signature = paymenttest.Forged
		return s.read(2, p)
	}
}

// Contracts whose transfers fail in words that no list has paid nothing and spend no
// gas: two addresses held the whole month by asking again and again for what was
// left open, and began anew when the chain had decided it.
func TestRepeats_OfUnknownPayersUseUpNothingKept(t *testing.T) {
	s := open(t, func(o *paywall.Options) {
		o.FreeSettlements, o.Pause = 100, time.Nanosecond
	})
	known := s.pay("aaaa")
	s.mustBuy(known)
	contract := s.openContracts()
	var left []payment.Payment
	for i := range 60 {
		p := contract(i/20, fmt.Sprintf("%x", i+1))
		if err := s.buyFrom(s.paywall, "192.0.2.66", p); errors.Is(err, payment.ErrPending) {
			left = append(left, p)
		}
	}
	for range 6 {
		s.clock.advance(6 * time.Second)
		for _, p := range left {
			_ = s.buyFrom(s.paywall, "192.0.2.66", p)
		}
	}
	status, err := s.ledger.QuotaStatus(context.Background(), payment.Month(s.clock.now()))
	if err != nil || status.Reserved > 70 {
		t.Errorf("%d of 100 settlements are reserved by %d payments (%v), and 30 are kept", status.Reserved, len(left), err)
	}
	s.mustBuyFrom("203.0.113.1", s.pay("bbbb"))
	s.mustBuyFrom("203.0.113.2", s.pay("cccc"))
	t.Logf("attacker: %d payments of 3 contracts, nothing paid; we: %d of 100 settlements held, the others are served", len(left), status.Reserved)
}

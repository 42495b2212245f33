package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// reverting makes the transfers of these payers transactions that fail on the
// chain: the facilitator names them, and they pay nothing.
func (s *fixture) reverting(payers ...string) *atomic.Int32 {
	made := new(atomic.Int32)
	bad := map[string]bool{}
	for _, payer := range payers {
		bad[payer] = true
	}
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnSettleOf = func(p x402.ExactPayload, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
			if !bad[p.Authorization.From] {
				return honest(), nil
			}
			b.Cancel(p.Authorization.Nonce[2:])
			r := refusal("invalid_exact_evm_transaction_failed")
			r.Transaction = paymenttest.Hash(1_000_000 + int(made.Add(1)))
			return r, nil
		}
	})
	return made
}

// payOf makes a payment of one of many payers.
func (s *fixture) payOf(payer int, nonce string) payment.Payment {
	key := paymenttest.Payer(payer)
	a := paymenttest.Authorization(nonce, s.clock.now())
	a.From = paymenttest.Address(key)
	p := payloadV2(a)
	p.Payload.Signature = paymenttest.SignWith(key, paymenttest.Terms(network), a)
	return s.read(2, p)
}

// buyFrom buys the thing from an address.
func (s *fixture) buyFrom(g *paywall.Paywall, address string, p payment.Payment) error {
	o := s.order(p, "thing")
	o.Address = address
	_, err := g.Buy(context.Background(), o)
	return err
}

// A payer whose transfers revert closed the month for everybody in three minutes.
func TestFailing_ARevertingPayerClosesSalesForThemselves(t *testing.T) {
	s, other := openSQL(t, nil)
	gates := []*paywall.Paywall{s.paywall, other}
	made := s.reverting(paymenttest.Address(paymenttest.Payer(1)))
	checks := 0
	for i := range 1000 {
		err := s.buyFrom(gates[i%2], fmt.Sprintf("192.0.2.%d", i%250), s.payOf(1, fmt.Sprintf("%x", i+1)))
		var failing *payment.LaterError
		switch {
		case i < 3 && !errors.Is(err, payment.ErrNotSettled):
			t.Errorf("%d: %v", i, err)
		case i >= 3 && (!errors.Is(err, payment.ErrFailing) || !errors.As(err, &failing) || failing.After != 12*time.Hour):
			t.Fatalf("%d: %v", i, err)
		}
		if i == 2 {
			checks = s.sim.Verifies
		}
	}
	if made.Load() != 3 || s.sim.Verifies != checks {
		t.Errorf("1000 reverting payments made %d transactions, and %d checks after the third", made.Load(), s.sim.Verifies-checks)
	}
	s.wantReserved(3)
	t.Logf("attacker: 1000 payments of one payer; we: %d settlements of 1000, %d checks, %d works", made.Load(), s.sim.Verifies, s.works.Load())
	s.mustBuy(s.pay("aaaa"))
	s.clock.advance(24 * time.Hour)
	if err := s.buyFrom(s.paywall, "192.0.2.1", s.payOf(1, "bbbb")); !errors.Is(err, payment.ErrNotSettled) {
		t.Errorf("on the next day: %v", err)
	}
}

func TestFailing_AHundredAtOnceBeginNoMoreThanMayFail(t *testing.T) {
	for name, payers := range map[string]int{"of one payer": 1, "of a hundred payers at one address": 100} {
		t.Run(name, func(t *testing.T) {
			s, other := openSQL(t, func(o *paywall.Options) { o.Answer = 5 * time.Second })
			addresses := make([]string, payers)
			for i := range addresses {
				addresses[i] = paymenttest.Address(paymenttest.Payer(i))
			}
			made := s.reverting(addresses...)
			var all sync.WaitGroup
			for i := range 100 {
				p := s.payOf(i%payers, fmt.Sprintf("%x", i+1))
				all.Go(func() {
					err := s.buyFrom([]*paywall.Paywall{s.paywall, other}[i%2], fmt.Sprintf("2001:db8:0:%x::/64", i), p)
					if !errors.Is(err, payment.ErrNotSettled) && !errors.Is(err, payment.ErrFailing) && !errors.Is(err, payment.ErrInFlight) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			want := int32(3)
			if payers > 1 {
				want = 10
			}
			if made.Load() != want {
				t.Errorf("%d transactions were made in vain, want %d", made.Load(), want)
			}
			s.wantReserved(int(want))
			s.mustBuyFrom("203.0.113.1", s.pay("ffff"))
		})
	}
}

func (s *fixture) mustBuyFrom(address string, p payment.Payment) {
	s.Helper()
	if err := s.buyFrom(s.paywall, address, p); err != nil {
		s.Error(err)
	}
}

// An honest unknown payer sends 64 payments at once.
func TestFailing_ManyHonestPaymentsAtOnceAreServed(t *testing.T) {
	s, other := openSQL(t, nil)
	began := time.Now()
	var all sync.WaitGroup
	for i := range 64 {
		p := s.payOf(7, fmt.Sprintf("%x", i+1))
		all.Go(func() {
			if err := s.buyFrom([]*paywall.Paywall{s.paywall, other}[i%2], "192.0.2.1", p); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.wantTransfers(64)
	t.Logf("64 at once over two processes took %v", time.Since(began))
}

// The last three tenths of the month are for who has paid before. A key of their own is
// no reason: an account that delegates to code (EIP-7702) has one.
func TestSettlements_TheMonthsLastAreForKnownPayers(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.FreeSettlements = 10 })
	contract := func(payer int, nonce string) payment.Payment {
		a := paymenttest.Authorization(nonce, s.clock.now())
		a.From = paymenttest.Address(paymenttest.Payer(payer))
		p := payloadV2(a)
		p.Payload.Signature = paymenttest.Forged // the facilitator accepts it
		return s.read(2, p)
	}
	for i := range 7 {
		s.mustBuy(contract(i, fmt.Sprint(i+1)))
	}
	checks := s.sim.Verifies
	_, err := s.buy(contract(100, "100"))
	s.wantErr(err, payment.ErrLimit)
	if s.sim.Verifies != checks {
		t.Error("the facilitator was called for a payer who had never paid")
	}
	_, err = s.buy(s.payOf(101, "102"))
	s.wantErr(err, payment.ErrLimit)
	for i := range 3 {
		s.mustBuy(contract(3+i, fmt.Sprint("20", i)))
	}
	_, err = s.buy(contract(3, "301"))
	s.wantErr(err, payment.ErrLimit)
	s.wantTransfers(10)
	for limit := range 4 { // nothing is kept of so few
		s := open(t, func(o *paywall.Options) { o.FreeSettlements = limit })
		for i := range limit {
			s.mustBuy(contract(i, fmt.Sprint(i+1)))
		}
		_, err := s.buy(s.pay("9"))
		s.wantErr(err, payment.ErrLimit)
	}
}

// A word in one payer's refusal closed the service for everybody.
func TestFailing_NoRefusalPausesSalesForOthers(t *testing.T) {
	for _, reason := range []string{
		"gas_limit_exceeded", "spending_limit_exceeded", "execution reverted: billing", "invalid_exact_evm_daily_limit_exceeded", "quota", "free_tier_exceeded",
	} {
		s := open(t, nil)
		no := false
		s.sim.Set(func(b *paymenttest.Simulator) {
			b.OnVerify = func() (x402.VerifyResponse, error) {
				return x402.VerifyResponse{IsValid: &no, InvalidReason: reason}, nil
			}
		})
		if _, err := s.buy(s.pay("1")); err == nil || errors.Is(err, payment.ErrLimit) {
			t.Errorf("%s at the check: %v", reason, err)
		}
		s.sim.Set(func(b *paymenttest.Simulator) {
			b.OnVerify = nil
			b.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
				return refusal(reason), nil
			}
		})
		if _, err := s.buy(s.pay("2")); err == nil || errors.Is(err, payment.ErrLimit) {
			t.Errorf("%s at settling: %v", reason, err)
		}
		s.sim.Set(func(b *paymenttest.Simulator) { b.OnSettle = nil })
		s.mustBuy(s.pay("3")) // the next buyer is served at once
	}
	t.Log("attacker: a refusal each; others: nothing, the next sale is made at once")
}

func TestFailing_APauseReportsHowLongItIs(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"a limit":                    {payment.ErrFacilitatorLimit, time.Minute},
		"a limit that has no end":    {&payment.LaterError{Err: payment.ErrFacilitatorLimit}, time.Minute},
		"a limit for half an hour":   {&payment.LaterError{Err: payment.ErrFacilitatorLimit, After: 30 * time.Minute}, 30 * time.Minute},
		"a limit for thirty seconds": {&payment.LaterError{Err: payment.ErrFacilitatorLimit, After: 30 * time.Second}, 30 * time.Second},
	} {
		for _, call := range []string{"verify", "settle"} {
			s := open(t, nil)
			s.sim.Set(func(b *paymenttest.Simulator) {
				if call == "verify" {
					b.OnVerify = func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, c.err }
				}
				b.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
					return x402.SettleResponse{}, c.err
				}
			})
			_, err := s.buy(s.pay("1"))
			var paused *payment.LaterError
			if call == "verify" && (!errors.Is(err, payment.ErrLimit) || !errors.As(err, &paused) || paused.After != c.want) {
				t.Errorf("%s: got %v", name, err)
			}
			if call == "settle" {
				s.wantErr(err, payment.ErrPending)
			}
			s.clock.advance(20 * time.Second)
			if err := s.paywall.CheckQuota(context.Background()); !errors.Is(err, payment.ErrLimit) || !errors.As(err, &paused) || paused.After != c.want-20*time.Second {
				t.Errorf("%s of %s: got %v after %+v", name, call, err, paused)
			}
			s.clock.advance(c.want - 20*time.Second)
			if err := s.paywall.CheckQuota(context.Background()); err != nil {
				t.Errorf("%s of %s: later: %v", name, call, err)
			}
		}
	}
}

func TestFailing_ABusyFacilitatorIsNotAtItsLimit(t *testing.T) {
	busy := &payment.LaterError{Err: errors.New("status 429"), After: 20 * time.Millisecond}
	t.Run("when it is called for a check", func(t *testing.T) {
		s := open(t, nil)
		s.sim.OnVerify = func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, busy }
		_, err := s.buy(s.pay("1"))
		s.wantErr(err, payment.ErrFacilitator)
		var later *payment.LaterError
		if !errors.As(err, &later) || later.After != busy.After || errors.Is(err, payment.ErrLimit) {
			t.Errorf("got %v", err)
		}
		if err := s.paywall.CheckQuota(context.Background()); err != nil {
			t.Errorf("others: %v", err)
		}
		s.wantReserved(0)
	})
	t.Run("when it is called to settle", func(t *testing.T) {
		s := open(t, nil)
		var called []time.Time
		s.sim.OnSettle = func(_ context.Context, settle func() x402.SettleResponse) (x402.SettleResponse, error) {
			if called = append(called, time.Now()); len(called) == 1 {
				return x402.SettleResponse{}, busy
			}
			return settle(), nil
		}
		s.mustBuy(s.pay("1"))
		if len(called) != 2 || called[1].Sub(called[0]) < busy.After {
			t.Errorf("called at %v", called)
		}
		s.wantTransfers(1)
	})
	t.Run("and stays so", func(t *testing.T) {
		s := open(t, nil)
		s.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			return x402.SettleResponse{}, busy
		}
		_, err := s.buy(s.pay("1"))
		s.wantErr(err, payment.ErrPending)
		if err := s.paywall.CheckQuota(context.Background()); err != nil {
			t.Errorf("others: %v", err)
		}
		s.wantTransfers(0)
	})
}

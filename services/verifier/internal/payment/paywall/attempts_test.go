package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

func TestAttempts_ThatEndUnpaidAreLimited(t *testing.T) {
	failing := func(s *fixture, nonce, address string) error { return buyFailing(s, s.pay(nonce), address) }
	t.Run("of an address", func(t *testing.T) {
		s := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 3 })
		for i := range 10 {
			s.mustBuy(s.pay(fmt.Sprintf("a%d", i))) // paid calls do not count
		}
		for i := range 3 {
			if err := failing(s, fmt.Sprint(i), "192.0.2.1"); errors.Is(err, payment.ErrTooMany) {
				t.Errorf("attempt %d was refused", i)
			}
		}
		var tooMany *payment.LaterError
		if err := failing(s, "3", "192.0.2.1"); !errors.Is(err, payment.ErrTooMany) || !errors.As(err, &tooMany) || tooMany.After <= 0 || tooMany.After > time.Minute {
			t.Errorf("got %v", err)
		}
		if err := failing(s, "4", "192.0.2.2"); errors.Is(err, payment.ErrTooMany) {
			t.Error("another address was refused")
		}
		s.clock.advance(time.Minute)
		s.mustBuy(s.pay("b"))
	})
	t.Run("of a payer", func(t *testing.T) {
		s := open(t, func(o *paywall.Options) { o.AttemptsPerPayer = 3 })
		for i := range 3 {
			_ = failing(s, fmt.Sprint(i), fmt.Sprint(i))
		}
		s.wantErr(failing(s, "3", "3"), payment.ErrTooMany)
		s.wantTransfers(0)
	})
	t.Run("of a payer by others", func(t *testing.T) {
		s := open(t, func(o *paywall.Options) { o.AttemptsPerPayer = 3 })
		no := false
		s.sim.OnVerify = func() (x402.VerifyResponse, error) {
			return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInvalidSignature}, nil
		}
		for i := range 5 {
			err := buyFailing(s, s.forged(fmt.Sprint(i)), fmt.Sprint(i))
			s.wantErr(err, payment.ErrRefused)
		}
		s.sim.Set(func(b *paymenttest.Simulator) { b.OnVerify = nil })
		s.mustBuy(s.pay("a")) // forged signatures do not lock the payer out
	})
	t.Run("that the facilitator cannot judge", func(t *testing.T) {
		s := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 3 })
		no := false
		ends := []func() (x402.VerifyResponse, error){
			func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, payment.ErrNoVerdict },
			func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, nil },
			func() (x402.VerifyResponse, error) {
				return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonUnexpectedVerify}, nil
			},
		}
		for i, end := range ends {
			s.sim.OnVerify = end
			_, err := s.buy(s.pay(fmt.Sprint(i)))
			s.wantErr(err, payment.ErrFacilitator)
		}
		_, err := s.buy(s.pay("3")) // a payment that chokes it costs as much as a bad one
		s.wantErr(err, payment.ErrTooMany)
	})
	t.Run("while the facilitator is away are free without work", func(t *testing.T) {
		s := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 3 })
		s.sim.OnVerify = func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, paymenttest.ErrCut }
		for i := range 5 {
			_, err := s.buy(s.forged(fmt.Sprint(i)))
			s.wantErr(err, payment.ErrFacilitator)
		}
		if n := s.works.Load(); n != 0 {
			t.Errorf("worked %d times", n)
		}
	})
	t.Run("while the facilitator is away count with the work", func(t *testing.T) {
		s := open(t, func(o *paywall.Options) { o.AttemptsPerAddress, o.AttemptsPerPayer = 20, 10 })
		s.sim.OnVerify = func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, paymenttest.ErrCut }
		for i := range 500 {
			_, err := s.buy(s.pay(fmt.Sprint(i)))
			if i < 10 {
				s.wantErr(err, payment.ErrFacilitator)
			} else {
				s.wantErr(err, payment.ErrTooMany)
			}
		}
		if n := s.works.Load(); n != 10 || s.sim.Verifies != 10 {
			t.Errorf("500 calls cost %d works and %d checks, want 10 of each", n, s.sim.Verifies)
		}
	})
	t.Run("a hundred at once", func(t *testing.T) {
		s := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 30 })
		var worked atomic.Int32
		var all sync.WaitGroup
		for i := range 100 {
			p := s.pay(fmt.Sprintf("%x", i+1))
			all.Go(func() {
				if err := buyFailing(s, p, "192.0.2.1"); !errors.Is(err, payment.ErrTooMany) {
					worked.Add(1)
				}
			})
		}
		all.Wait()
		if worked.Load() != 30 {
			t.Errorf("%d attempts were let in, want 30", worked.Load())
		}
	})
}

// buyFailing pays for work that fails.
func buyFailing(s *fixture, p payment.Payment, address string) error {
	o := s.order(p, "thing")
	o.Address = address
	o.Work = func(context.Context) ([]byte, error) { return nil, errors.New("no") }
	_, err := s.paywall.Buy(context.Background(), o)
	return err
}

func TestAttempts_ManyAddressesLockNoOthersOut(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 60 })
	no := false
	s.sim.OnVerify = func() (x402.VerifyResponse, error) {
		return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInvalidSignature}, nil
	}
	from := func(p payment.Payment, address string) error {
		o := s.order(p, "thing")
		o.Address = address
		_, err := s.paywall.Buy(context.Background(), o)
		return err
	}
	pay := func(nonce string, at time.Time) payment.Payment {
		p := payloadV2(paymenttest.Authorization(nonce, at))
		p.Payload.Signature = "0x" + strings.Repeat("ab", 200) // a contract's, as far as we know
		return s.read(2, p)
	}
	const known, calls, limit = 99_000, 1000, 60
	for i := range known { // what as many refused calls leave behind
		if err := s.paywall.SpendAddress(fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		attack payment.Payment
		want   error
		checks int
	}{
		{"authorizations that are over", pay("77", start.Add(-time.Hour)), payment.ErrInvalid, 0},
		{"signatures that are refused", pay("78", start), payment.ErrRefused, 150}, // half of what strangers have: it is one /48
	} {
		began := time.Now()
		for i := known; i < known+calls; i++ {
			if err := from(c.attack, fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff)); !errors.Is(err, c.want) && (i < known+c.checks || !errors.Is(err, payment.ErrTooMany)) {
				t.Fatalf("%s: call %d: %v", c.name, i, err)
			}
		}
		refused := 0
		for range 20 * limit { // from an address that was not counted before
			if errors.Is(from(c.attack, "2001:db8:1:ffff::/64"), payment.ErrTooMany) {
				refused++
			}
		}
		if s.sim.Verifies != c.checks {
			t.Errorf("%s: the facilitator was called %d times, want %d", c.name, s.sim.Verifies, c.checks)
		}
		t.Logf("%s: attacker: a call from each of %d networks /64 in a minute, then %d from one, of which %d are refused as too many; "+
			"of the last %d calls we have %d checks, %d works, %s", c.name, known+calls, 20*limit, refused,
			calls+20*limit, s.sim.Verifies, s.works.Load(), time.Since(began).Round(time.Millisecond))
	}
	s.sim.Set(func(b *paymenttest.Simulator) { b.OnVerify = nil })
	for i, address := range []string{"203.0.113.1", "2001:db8:1000:1::/64", "2a00:1:2:3::/64"} {
		if err := from(s.pay(fmt.Sprint(i+1)), address); err != nil {
			t.Errorf("an honest newcomer at %s: %v", address, err)
		}
	}
	s.wantTransfers(3)
}

// TestLookups_AreBoundedForAllNetworksTogether: who is refused because of others keeps what is its own.
func TestLookups_AreBoundedForAllNetworksTogether(t *testing.T) {
	s := open(t, nil)
	allowed := 0
	for i := range 100 {
		if s.paywall.CountLookup(fmt.Sprintf("203.0.%d.1", i)) == nil {
			allowed++
		}
	}
	if allowed != 30 {
		t.Errorf("%d networks were allowed one, want 30", allowed)
	}
	for range 100 {
		s.wantErr(s.paywall.CountLookup("198.51.100.1"), payment.ErrTooMany)
	}
	s.clock.advance(7500 * time.Millisecond)
	for range 15 {
		s.wantErr(s.paywall.CountLookup("198.51.100.1"), nil)
	}
	s.wantErr(s.paywall.CountLookup("198.51.100.1"), payment.ErrTooMany)
}

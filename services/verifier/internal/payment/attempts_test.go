package payment_test

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
)

func TestAttemptsThatEndUnpaidAreLimited(t *testing.T) {
	failing := func(s *shop, nonce, address string) error { return buyFailing(s, s.pay(nonce), address) }
	t.Run("of an address", func(t *testing.T) {
		s := open(t, func(o *payment.Options) { o.AttemptsPerAddress = 3 })
		for i := range 10 {
			s.mustBuy(s.pay(fmt.Sprintf("a%d", i))) // paid calls do not count
		}
		for i := range 3 {
			if err := failing(s, fmt.Sprint(i), "192.0.2.1"); errors.Is(err, payment.ErrTooMany) {
				t.Errorf("attempt %d was refused", i)
			}
		}
		var tooMany *payment.TooManyError
		if err := failing(s, "3", "192.0.2.1"); !errors.As(err, &tooMany) || tooMany.After <= 0 || tooMany.After > time.Minute {
			t.Errorf("got %v", err)
		}
		if err := failing(s, "4", "192.0.2.2"); errors.Is(err, payment.ErrTooMany) {
			t.Error("another address was refused")
		}
		s.clock.advance(time.Minute)
		s.mustBuy(s.pay("b"))
	})
	t.Run("of a payer", func(t *testing.T) {
		s := open(t, func(o *payment.Options) { o.AttemptsPerPayer = 3 })
		for i := range 3 {
			_ = failing(s, fmt.Sprint(i), fmt.Sprint(i))
		}
		s.wantErr(failing(s, "3", "3"), payment.ErrTooMany)
		s.wantTransfers(0)
	})
	t.Run("of a payer by others", func(t *testing.T) {
		s := open(t, func(o *payment.Options) { o.AttemptsPerPayer = 3 })
		no := false
		s.bank.OnVerify = func() (x402.VerifyResponse, error) {
			return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInvalidSignature}, nil
		}
		for i := range 5 {
			_ = failing(s, fmt.Sprint(i), fmt.Sprint(i))
		}
		s.bank.Set(func(b *paymenttest.Bank) { b.OnVerify = nil })
		s.mustBuy(s.pay("a")) // forged signatures do not lock the payer out
	})
	t.Run("that the facilitator cannot judge", func(t *testing.T) {
		s := open(t, func(o *payment.Options) { o.AttemptsPerAddress = 3 })
		no := false
		ends := []func() (x402.VerifyResponse, error){
			func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, payment.ErrNoVerdict },
			func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, nil },
			func() (x402.VerifyResponse, error) {
				return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonUnexpectedVerify}, nil
			},
		}
		for i, end := range ends {
			s.bank.OnVerify = end
			_, err := s.buy(s.pay(fmt.Sprint(i)))
			s.wantErr(err, payment.ErrFacilitator)
		}
		_, err := s.buy(s.pay("3")) // a payment that chokes it costs as much as a bad one
		s.wantErr(err, payment.ErrTooMany)
	})
	t.Run("while the facilitator is away are free", func(t *testing.T) {
		s := open(t, func(o *payment.Options) { o.AttemptsPerAddress = 3 })
		s.bank.OnVerify = func() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, paymenttest.ErrCut }
		for i := range 5 {
			_, err := s.buy(s.pay(fmt.Sprint(i)))
			s.wantErr(err, payment.ErrFacilitator)
		}
	})
	t.Run("a hundred at once", func(t *testing.T) {
		s := open(t, func(o *payment.Options) { o.AttemptsPerAddress = 30 })
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
func buyFailing(s *shop, p payment.Payment, address string) error {
	o := s.order(p, "thing")
	o.Address = address
	o.Work = func(context.Context) ([]byte, error) { return nil, errors.New("no") }
	_, err := s.gate.Buy(context.Background(), o)
	return err
}

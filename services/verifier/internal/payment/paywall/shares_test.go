package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// limited is a facilitator that is busy after so many checks in an interval.
type limited struct {
	payment.Facilitator
	most  int
	every time.Duration

	mu      sync.Mutex
	began   time.Time
	checks  int
	refused int
}

func (f *limited) Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error) {
	f.mu.Lock()
	if now := time.Now(); now.Sub(f.began) >= f.every {
		f.began, f.checks = now, 0
	}
	f.checks++
	busy := f.checks > f.most
	if busy {
		f.refused++
	}
	f.mu.Unlock()
	if busy {
		return x402.VerifyResponse{}, &payment.LaterError{Err: payment.ErrFacilitatorBusy, After: f.every}
	}
	return f.Facilitator.Verify(ctx, body)
}

// Keys cost nothing. Those without money made the facilitator so busy that a known payer got
// one answer in 27 attempts.
func TestPaywall_ABusyFacilitatorPausesStrangersFirst(t *testing.T) {
	s := open(t, nil)
	var f *limited
	g := s.replica(func(o *paywall.Options) {
		f = &limited{Facilitator: o.Facilitator, most: 5, every: 300 * time.Millisecond}
		o.Facilitator = f
	})
	s.mustBuy(s.pay("aaaa"))
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	var attack sync.WaitGroup
	for i := range 3 {
		attack.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				o := s.order(s.payOf(1000*(i+1)+n, fmt.Sprintf("%x", 1_000_000*(i+1)+n)), fmt.Sprint("bad", i, n))
				o.Address = fmt.Sprintf("2001:db8:%x::/64", n)
				o.Work = func(context.Context) ([]byte, error) { return nil, errors.New("not found") }
				_, _ = g.Buy(ctx, o)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	served := 0
	for n := 0; ctx.Err() == nil; n++ {
		o := s.order(s.pay(fmt.Sprintf("b%x", n)), fmt.Sprint("thing", n))
		if _, err := g.Buy(context.Background(), o); err != nil {
			t.Errorf("the known payer, after %d answers: %v", served, err)
			break
		}
		served++
		time.Sleep(100 * time.Millisecond)
	}
	attack.Wait()
	t.Logf("the known payer got %d answers; the facilitator was too busy for %d checks", served, f.refused)
}

// The work for keys that do not pay begins before the facilitator's check only while few do.
func TestPaywall_WorksBesideTheCheckOnlyWhileFewEndUnpaid(t *testing.T) {
	s := open(t, nil)
	no := false
	s.sim.OnVerify = func() (x402.VerifyResponse, error) {
		return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInsufficientFunds}, nil
	}
	for i := range 60 {
		_, err := s.buy(s.payOf(i, fmt.Sprintf("%x", i+1)))
		s.wantErr(err, payment.ErrRefused)
	}
	if n := s.works.Load(); n > 20 {
		t.Errorf("worked %d times for 60 payers without money", n)
	}
}

// Expectations that do not hold are free, so that they have a bound of a day.
func TestPaywall_BoundsTheWorksOfADayThatEndUnpaid(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.AttemptsPerAddress, o.AttemptsPerPayer = 100_000, 100_000 })
	s.mustBuy(s.pay("aaaa"))
	vain := func(address string, p payment.Payment) error {
		o := s.order(p, "other")
		o.Address = address
		o.Work = func(context.Context) ([]byte, error) {
			s.works.Add(1)
			return nil, errNotFound
		}
		_, err := s.paywall.Buy(context.Background(), o)
		return err
	}
	before := s.works.Load()
	for i := range 1050 {
		want := errNotFound
		if i >= 300 {
			want = payment.ErrTooMany
		}
		err := vain("192.0.2.1", s.payOf(1, fmt.Sprintf("%x", i+1)))
		s.wantErr(err, want)
		var later *payment.LaterError
		if i >= 300 && (!errors.As(err, &later) || later.After <= time.Hour) {
			t.Fatalf("%d: %v", i, err)
		}
		s.clock.advance(time.Second)
	}
	if n := s.works.Load() - before; n != 300 {
		t.Errorf("worked %d times", n)
	}
	s.wantErr(vain("192.0.2.1", s.payOf(2, "f1")), errNotFound) // what was refused took nothing from the network's
	s.wantErr(vain("192.0.2.1", s.pay("f2")), errNotFound)
	s.mustBuy(s.payOf(2, "f3"))
	before = s.works.Load() // nor of the works that may begin before the facilitator's check
	no := false
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnVerify = func() (x402.VerifyResponse, error) {
			return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInsufficientFunds}, nil
		}
	})
	_, err := s.buy(s.payOf(3, "f4"))
	if s.wantErr(err, payment.ErrRefused); s.works.Load() != before+1 {
		t.Error("the work of a stranger waits for the check")
	}
}

var errNotFound = errors.New("not found")

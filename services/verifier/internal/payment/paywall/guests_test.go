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

// crowdedCheck is a facilitator that answers when so many call it: only the payers
// who have money get its yes.
type crowdedCheck struct {
	payment.Facilitator
	rich   map[string]bool
	called *atomic.Int32
	all    chan struct{}
	limit  int32
}

func (f crowdedCheck) Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error) {
	if f.called.Add(1) == f.limit {
		close(f.all)
	}
	select {
	case <-f.all:
	case <-ctx.Done():
		return x402.VerifyResponse{}, ctx.Err()
	}
	no := false
	answer, err := f.Facilitator.Verify(ctx, body)
	if err == nil && !f.rich[answer.Payer] {
		return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInsufficientFunds}, nil
	}
	return answer, err
}

// Keys are made for nothing: a hundred payers without money sign well. The work that
// was begun for them beside the facilitator's check kept the nodes from those who pay.
func TestGuests_WithoutMoneyDoNotCrowdTheWork(t *testing.T) {
	const payers, able, places = 100, 20, 8
	s := open(t, nil)
	known := s.payOf(0, "aaaa")
	s.mustBuy(known)
	check := crowdedCheck{rich: map[string]bool{}, called: new(atomic.Int32), all: make(chan struct{}), limit: payers}
	g := s.replica(func(o *paywall.Options) {
		check.Facilitator, o.Facilitator = o.Facilitator, &check
	})
	var worked sync.Map
	var all sync.WaitGroup
	for i := range payers {
		p := s.payOf(i, fmt.Sprintf("%x", i+1))
		if i < able {
			check.rich[p.Payer] = true
		}
		all.Go(func() {
			o := s.order(p, "thing")
			o.Address = fmt.Sprintf("192.0.2.%d", i)
			o.Work = func(context.Context) ([]byte, error) {
				worked.Store(i, true)
				return []byte("the thing"), nil
			}
			_, err := g.Buy(context.Background(), o)
			if i < able && err != nil || i >= able && !errors.Is(err, payment.ErrRefused) {
				t.Errorf("payer %d: %v", i, err)
			}
		})
	}
	all.Wait()
	vain := 0
	worked.Range(func(payer, _ any) bool {
		if payer.(int) >= able {
			vain++
		}
		return true
	})
	if vain > places {
		t.Errorf("worked %d times for who has no money", vain)
	}
	s.wantTransfers(able + 1)
	t.Logf("attacker: %d keys without money; we: %d works in vain at once", payers-able, vain)
}

// Who has money is not known for that: where the check comes first, few are worked for at once.
func TestGuests_WithMoneyDoNotCrowdTheWork(t *testing.T) {
	const payers, places = 40, 4
	s := open(t, nil)
	no := false
	s.sim.OnVerify = func() (x402.VerifyResponse, error) {
		return x402.VerifyResponse{IsValid: &no, InvalidReason: x402.ReasonInsufficientFunds}, nil
	}
	for i := range 20 { // from here on the check comes first
		_, err := s.buy(s.payOf(i+1, fmt.Sprintf("a%x", i)))
		s.wantErr(err, payment.ErrRefused)
	}
	s.sim.Set(func(b *paymenttest.Simulator) { b.OnVerify = nil })
	var working, most atomic.Int32
	var all sync.WaitGroup
	for i := range payers {
		p := s.payOf(100+i, fmt.Sprintf("%x", i+1))
		all.Go(func() {
			o := s.order(p, "thing")
			o.Address = fmt.Sprintf("192.0.2.%d", i)
			o.Work = func(context.Context) ([]byte, error) {
				n := working.Add(1)
				for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				}
				time.Sleep(20 * time.Millisecond)
				working.Add(-1)
				return []byte("the thing"), nil
			}
			if _, err := s.paywall.Buy(context.Background(), o); err != nil {
				t.Errorf("payer %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > places {
		t.Errorf("worked for %d at once, want at most %d", n, places)
	}
}

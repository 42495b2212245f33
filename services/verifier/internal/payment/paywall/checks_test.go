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

// hanging is a facilitator that takes as long as it may over what is not signed by
// the buyer's own key, as over a contract that does not come to an end.
type hanging struct {
	*paymenttest.Simulator
	mu        sync.Mutex
	now, most int
}

func (f *hanging) Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error) {
	answer, err := f.Simulator.Verify(ctx, body)
	if err != nil || *answer.IsValid {
		return answer, err
	}
	f.mu.Lock()
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.now--
	f.mu.Unlock()
	return x402.VerifyResponse{}, ctx.Err()
}

// Contracts that take their time held every connection to the facilitator.
func TestChecks_SlowOnesLeaveConnectionsForOthers(t *testing.T) {
	s := open(t, nil)
	s.sim.Signed = plain
	facilitator := &hanging{Simulator: s.sim}
	g := s.replica(func(o *paywall.Options) { o.Facilitator, o.VerifyTimeout = facilitator, time.Second })
	var all sync.WaitGroup
	for i := range 300 {
		p := s.forged(fmt.Sprintf("%x", i+1))
		all.Go(func() {
			o := s.order(p, "thing")
			o.Address = fmt.Sprintf("192.0.2.%d", i%10)
			_, err := g.Buy(context.Background(), o)
			if !errors.Is(err, payment.ErrFacilitator) && !errors.Is(err, payment.ErrInFlight) {
				t.Error(err)
			}
		})
	}
	if err := s.buyFrom(g, "203.0.113.1", s.pay("aaaa")); err != nil {
		t.Errorf("a buyer with a key of their own: %v", err)
	}
	all.Wait()
	if facilitator.most > 64 {
		t.Errorf("%d checks at once of payments that may be forged", facilitator.most)
	}
	t.Logf("attacker: 300 broken signatures at once; we: %d checks at once", facilitator.most)
}

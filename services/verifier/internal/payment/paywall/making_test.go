package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// What known payers ask for is worked for beside the facilitator's check, without a bound on how many there are.
func TestHold_FewLargeAnswersAreMadeAtOnce(t *testing.T) {
	const payers = 5
	s := open(t, nil)
	for i := range payers {
		s.mustBuy(s.payOf(i, fmt.Sprintf("a%x", i)))
	}
	var made, most atomic.Int32
	first, goOn := make(chan struct{}, payers), make(chan struct{})
	large := func(ctx context.Context) ([]byte, error) {
		if err := paywall.Hold(ctx, receipt.MaxSize); err != nil {
			return nil, err
		}
		if n := made.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer made.Add(-1)
		first <- struct{}{}
		<-goOn
		return []byte("large"), nil
	}
	var all sync.WaitGroup
	for i := range payers {
		all.Go(func() {
			o := s.order(s.payOf(i, fmt.Sprintf("b%x", i)), fmt.Sprint("large", i))
			o.Work = large
			if _, err := s.paywall.Buy(t.Context(), o); err != nil {
				t.Errorf("payer %d: %v", i, err)
			}
		})
	}
	<-first
	s.mustBuy(s.payOf(payers, "c1")) // a small one, of a stranger, meanwhile
	time.Sleep(50 * time.Millisecond)
	close(goOn)
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d of the largest answers were made at once", most.Load())
	}
}

func TestHold_IsGivenBackByWorkThatFails(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.WorkTimeout = time.Second })
	fails := errors.New("no evidence")
	for i, refused := range []bool{false, true, false} {
		o := s.order(s.payOf(i, fmt.Sprintf("d%x", i)), fmt.Sprint("thing", i))
		o.Work = func(ctx context.Context) ([]byte, error) {
			if err := paywall.Hold(ctx, receipt.MaxSize); err != nil {
				return nil, err
			}
			if refused {
				return nil, fails
			}
			return []byte("large"), nil
		}
		if _, err := s.paywall.Buy(t.Context(), o); refused != errors.Is(err, fails) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// A batch holds for one question after the other: two that waited for each other would never end.
func TestHold_TwoOrdersDoNotWaitForEachOther(t *testing.T) {
	s := open(t, nil)
	var begun sync.WaitGroup
	begun.Add(2)
	var inFlight atomic.Int32
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			o := s.order(s.payOf(i, fmt.Sprintf("e%x", i)), fmt.Sprint("batch", i))
			o.Work = func(ctx context.Context) ([]byte, error) {
				if err := paywall.Hold(ctx, receipt.MaxSize/2); err != nil {
					return nil, err
				}
				begun.Done()
				begun.Wait()
				return []byte("batch"), paywall.Hold(ctx, receipt.MaxSize/2)
			}
			if _, err := s.paywall.Buy(t.Context(), o); errors.Is(err, payment.ErrInFlight) {
				inFlight.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if inFlight.Load() == 0 {
		t.Error("both have more than there is")
	}
}

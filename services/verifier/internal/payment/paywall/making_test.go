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
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
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

// A payment that was refused buys no answer, and nobody waits while it is looked up.
func TestHold_EndsWhereThePaymentIsRefused(t *testing.T) {
	looks, goOn := make(chan struct{}), make(chan struct{})
	s := open(t, nil)
	s.paywall = s.replica(func(o *paywall.Options) {
		o.WorkTimeout, o.ChainLog = 2*time.Second, slowLog{s.sim, looks, goOn}
	})
	held := make(chan struct{}, 2)
	large := func(ctx context.Context) ([]byte, error) {
		defer func() { held <- struct{}{} }()
		return []byte("large"), paywall.Hold(ctx, receipt.MaxSize)
	}
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.OnVerify = func() (x402.VerifyResponse, error) {
			<-held
			return verdict(false, x402.ReasonInsufficientFunds)()
		}
	})
	first := s.order(s.payOf(1, "f1"), "first")
	first.Work = large
	refused := make(chan error, 1)
	go func() {
		_, err := s.paywall.Buy(t.Context(), first)
		refused <- err
	}()
	<-looks
	s.sim.Set(func(b *paymenttest.Simulator) { b.OnVerify = nil })
	second := s.order(s.payOf(2, "f2"), "second")
	second.Work = large
	if _, err := s.paywall.Buy(t.Context(), second); err != nil {
		t.Errorf("meanwhile another's is sold: %v", err)
	}
	close(goOn)
	s.wantErr(<-refused, payment.ErrRefused)
}

// slowLog is a ChainLog that answers the first question once goOn is closed, and says when it is asked.
type slowLog struct {
	payment.ChainLog
	looks, goOn chan struct{}
}

func (l slowLog) Authorization(ctx context.Context, r payment.Record) (payment.Authorization, error) {
	select {
	case l.looks <- struct{}{}:
		<-l.goOn
	default:
	}
	return l.ChainLog.Authorization(ctx, r)
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

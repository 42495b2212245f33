package paywall

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func TestKnownChecks_OfAPayerOneAtATimeCounts(t *testing.T) {
	k := newKnownChecks(time.Now)
	var counted atomic.Int64
	ends := make(chan func(error), 100)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			counts, end, err := k.begin("a")
			if err != nil {
				t.Error(err)
				return
			}
			if counts {
				counted.Add(1)
			}
			ends <- end
		})
	}
	all.Wait()
	if counted.Load() != 1 {
		t.Errorf("%d checks count", counted.Load())
	}
	close(ends)
	for end := range ends {
		end(nil)
	}
	if len(k.of) != 0 {
		t.Errorf("%d payers are kept", len(k.of))
	}
}

func TestKnownChecks_NoneCountsForAnHourAfterOneWithoutAnAnswer(t *testing.T) {
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	k := newKnownChecks(func() time.Time { return now })
	check := func(wantCounts bool, got error) {
		t.Helper()
		counts, end, err := k.begin("a")
		if err != nil || counts != wantCounts {
			t.Fatalf("counts %v, %v", counts, err)
		}
		end(got)
	}
	for _, noFault := range []error{
		nil, payment.ErrNoVerdict, context.Canceled, &payment.LaterError{Err: payment.ErrFacilitatorBusy},
	} {
		check(true, noFault)
	}
	check(true, errors.New("no answer in time"))
	_, end, err := k.begin("a")
	if err != nil {
		t.Fatal(err)
	}
	var later *payment.LaterError
	if _, _, err := k.begin("a"); !errors.Is(err, payment.ErrFacilitator) || !errors.As(err, &later) {
		t.Errorf("a second one at once: %v", err)
	}
	if counts, _, err := k.begin("b"); err != nil || !counts {
		t.Errorf("another payer: counts %v, %v", counts, err)
	}
	end(nil)
	now = now.Add(time.Hour - time.Second)
	_, end, err = k.begin("a")
	if counts, other, err := k.begin("a"); err != nil || counts {
		t.Errorf("two at once after an answer: counts %v, %v", counts, err)
	} else {
		other(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	end(nil)
	check(false, nil)
	now = now.Add(time.Second)
	check(true, nil)
}

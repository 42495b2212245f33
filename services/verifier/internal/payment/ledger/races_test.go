package ledger_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

func oneWinner(w *world) {
	var wins atomic.Int32
	w.at(100, func(i int, l *ledger.Ledger) {
		owner := []string{alice, bob}[i%2]
		r := record("a", owner)
		r.Request[0] = byte(i)
		got, won, err := l.Claim(context.Background(), r)
		switch {
		case err != nil:
			w.Error(err)
		case won:
			wins.Add(1)
		case got.State != payment.Working:
			w.Errorf("a loser saw %+v", got)
		}
	})
	if wins.Load() != 1 {
		w.Errorf("%d claims won", wins.Load())
	}
}

func exactLimit(w *world) {
	const limit = 50
	var began atomic.Int32
	w.at(500, func(i int, l *ledger.Ledger) {
		r := record(name(i), alice)
		if _, won, err := l.Claim(context.Background(), r); err != nil || !won {
			w.Errorf("claim %d: %v, %v", i, won, err)
			return
		}
		_, _, err := l.Begin(context.Background(), r.Key, alice, settlement(r, limit))
		switch {
		case err == nil:
			began.Add(1)
		case !errors.Is(err, payment.ErrLimit):
			w.Error(err)
		}
	})
	if began.Load() != limit {
		w.Errorf("%d settlements began, want %d", began.Load(), limit)
	}
	w.wantReserved(limit)
}

func oneDuplicate(w *world) {
	oneOf100Begins(w, month)
	w.wantReserved(1)
}

// oneDuplicateAtTheMonthsEnd: the second of the three processes is in the next month.
func oneDuplicateAtTheMonthsEnd(w *world) { oneOf100Begins(w, month, "2026-12", month) }

// oneOf100Begins begins with one identifier in the months, one after the other.
func oneOf100Begins(w *world, months ...string) {
	w.Helper()
	var began atomic.Int32
	w.at(100, func(i int, l *ledger.Ledger) {
		r := record(name(i), alice)
		r.Identifier = "order_0123456789"
		if _, won, err := l.Claim(context.Background(), r); err != nil || !won {
			w.Errorf("claim %d: %v, %v", i, won, err)
			return
		}
		s := settlement(r, 1000)
		s.Month = months[i%len(months)]
		_, duplicate, err := l.Begin(context.Background(), r.Key, alice, s)
		if err != nil {
			w.Error(err)
		} else if duplicate == nil {
			began.Add(1)
		}
	})
	if began.Load() != 1 {
		w.Errorf("%d settlements began for one identifier", began.Load())
	}
}

func finishOnce(w *world) {
	for _, n := range []string{"a", "b"} {
		w.begin(record(n, alice))
	}
	states := []payment.State{payment.Settled, payment.Dead, payment.Unknown}
	w.at(100, func(i int, l *ledger.Ledger) {
		if _, err := l.Apply(context.Background(), record("a", alice).Key, payment.Verdict(payment.Outcome{State: states[i%3]})); err != nil {
			w.Error(err)
		}
		if _, err := l.Apply(context.Background(), record("b", alice).Key, payment.Verdict(payment.Outcome{State: payment.Dead, Unsent: true})); err != nil {
			w.Error(err)
		}
	})
	if got := w.get(record("a", alice).Key); got.State != payment.Settled {
		w.Errorf("got %+v, want settled", got)
	}
	w.wantReserved(1)
}

// retryOnce: of many that retry at once, one does.
func retryOnce(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.finish(r, payment.Outcome{State: payment.Unknown})
	var won atomic.Int32
	w.at(100, func(_ int, l *ledger.Ledger) {
		switch err := second(l.Apply(context.Background(), r.Key, retry(month, payment.Retry{Limit: 1000}))); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, payment.ErrLost):
			w.Error(err)
		}
	})
	if won.Load() != 1 {
		w.Errorf("%d retries were taken", won.Load())
	}
	w.wantReserved(2)
}

// retriesStayInTheLimit: retries and beginnings share the month's limit.
func retriesStayInTheLimit(w *world) {
	const limit = 60
	for i := range 50 {
		w.begin(record(name(i), alice))
		w.finish(record(name(i), alice), payment.Outcome{State: payment.Unknown})
	}
	var reserved atomic.Int32
	w.at(100, func(i int, l *ledger.Ledger) {
		err := second(l.Apply(context.Background(), record(name(i%50), alice).Key, retry(month, payment.Retry{Retries: i / 50, Limit: limit})))
		switch {
		case err == nil:
			reserved.Add(1)
		case !errors.Is(err, payment.ErrLimit) && !errors.Is(err, payment.ErrLost):
			w.Error(err)
		}
	})
	if reserved.Load() != limit-50 {
		w.Errorf("%d retries were reserved, want %d", reserved.Load(), limit-50)
	}
	w.wantReserved(limit)
}

func dueConcurrently(w *world) {
	for i := range 10 {
		w.begin(record(name(i), gone))
	}
	var seen atomic.Int32
	w.at(100, func(_ int, l *ledger.Ledger) {
		switch _, err := l.Due(context.Background(), start.Add(time.Minute)); {
		case err == nil:
			seen.Add(1)
		case !errors.Is(err, payment.ErrNotFound):
			w.Error(err)
		}
	})
	if seen.Load() != 10 {
		w.Errorf("10 payments were given %d times", seen.Load())
	}
}

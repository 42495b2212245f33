package app_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pforte/pforte/services/auth/internal/app"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// sweeps is a store that notes when it is swept, and fails the first time.
type sweeps struct {
	session.Store
	at []time.Time
}

func (s *sweeps) Sweep(context.Context) (session.Swept, error) {
	s.at = append(s.at, time.Now())
	if len(s.at) == 1 {
		return session.Swept{}, errors.New("the store is away")
	}
	return session.Swept{Expired: 1}, nil
}

// AUTH-2.8.
func TestSweep_ExpiredSessionsGoEvery15Minutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, begin := &sweeps{}, time.Now()
		ctx, stop := context.WithTimeout(t.Context(), time.Hour-time.Second)
		defer stop()
		app.Sweep(ctx, store, slog.New(slog.DiscardHandler))
		if len(store.at) != 3 {
			t.Fatalf("swept %d times in an hour less a second", len(store.at))
		}
		for i, at := range store.at {
			if after := at.Sub(begin); after != time.Duration(i+1)*15*time.Minute {
				t.Errorf("sweep %d comes after %s", i+1, after)
			}
		}
	})
}

func TestEvery_SweepsAtOnceAndThenAtEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var after []time.Duration
		begin := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 3*24*time.Hour-time.Second)
		defer stop()
		app.Every(ctx, 24*time.Hour, func(context.Context) error {
			after = append(after, time.Since(begin))
			return errors.New("the store is away")
		}, "sweep", slog.New(slog.DiscardHandler))
		if want := []time.Duration{0, 24 * time.Hour, 48 * time.Hour}; !slices.Equal(after, want) {
			t.Errorf("swept after %v, want %v", after, want)
		}
	})
}

// counts is a store whose sweeps find that many live sessions.
type counts struct {
	session.Stores
	live []int
}

func (c *counts) Sweep(context.Context) (session.Swept, error) {
	n := c.live[0]
	c.live = c.live[1:]
	return session.Swept{Live: n}, nil
}

func TestSweep_CountsLiveSessionsUnknownBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, live := app.CountSessions(&counts{live: []int{2, 1, 1, 0}})
		if got := testutil.ToFloat64(live); !math.IsNaN(got) {
			t.Errorf("%v sessions before the first sweep", got)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go app.Sweep(ctx, store, slog.New(slog.DiscardHandler))
		for _, want := range []float64{2, 1, 1, 0} {
			time.Sleep(session.SweepInterval)
			synctest.Wait()
			if got := testutil.ToFloat64(live); got != want {
				t.Errorf("after %s there are %v sessions, want %v", session.SweepInterval, got, want)
			}
		}
	})
}

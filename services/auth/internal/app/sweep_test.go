package app_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/services/auth/internal/app"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// sweeps is a store that notes when it is swept, and fails the first time.
type sweeps struct {
	session.Store
	at []time.Time
}

func (s *sweeps) Sweep(context.Context) (int, error) {
	s.at = append(s.at, time.Now())
	if len(s.at) == 1 {
		return 0, errors.New("the store is away")
	}
	return 1, nil
}

// Contract, section 8.
func TestExpiredSessionsAreSweptEvery15Minutes(t *testing.T) {
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

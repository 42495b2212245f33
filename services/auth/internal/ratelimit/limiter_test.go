package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

func TestALimiterNeedsAllItsParts(t *testing.T) {
	store := broken{}
	for name, make := range map[string]func() (*ratelimit.Limiter, error){
		"no store":  func() (*ratelimit.Limiter, error) { return ratelimit.New(nil, "login", 5, time.Minute) },
		"no name":   func() (*ratelimit.Limiter, error) { return ratelimit.New(store, "", 5, time.Minute) },
		"no limit":  func() (*ratelimit.Limiter, error) { return ratelimit.New(store, "login", 0, time.Minute) },
		"no window": func() (*ratelimit.Limiter, error) { return ratelimit.New(store, "login", 5, time.Microsecond) },
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// broken is a store that fails.
type broken struct{ ratelimit.Store }

var errBroken = errors.New("connection refused")

func (broken) Spend(ctx context.Context, _ string, _ time.Duration, _ ...ratelimit.Key) (ratelimit.Count, error) {
	if _, ok := ctx.Deadline(); !ok {
		return ratelimit.Count{}, errors.New("there is no deadline")
	}
	return ratelimit.Count{Taken: true}, errBroken
}

func TestAFailingStoreAllowsNothing(t *testing.T) {
	l, err := ratelimit.New(broken{}, "login", 5, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Spend(t.Context(), "a"); !errors.Is(err, errBroken) || d.Allowed {
		t.Errorf("got %+v, %v", d, err)
	}
}

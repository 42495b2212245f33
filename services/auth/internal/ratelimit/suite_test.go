package ratelimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

// backend is an empty Redis under test.
type backend struct {
	// Clients is one client of Redis, or several as several processes have.
	Clients []redis.UniversalClient
	// Advance moves its clock; nil where that is the real one, which
	// the suite then waits for.
	Advance func(time.Duration)
}

// opener returns an empty Redis.
type opener func(t *testing.T) backend

type suite struct {
	*testing.T
	backend
	// window is long where the clock moves and short where it is waited for.
	window time.Duration
}

const limit = 5

// testMeaning checks the meaning of limiters on what open returns.
func testMeaning(t *testing.T, open opener) {
	tests := map[string]func(*suite){
		"a key has as many attempts as the limit":                   spend,
		"a refused attempt is not counted":                          refusedIsFree,
		"keys are apart, and so are limiters":                       apart,
		"a window begins with the first attempt":                    window,
		"a window is no longer after Redis's clock was set back":    windowSetBack,
		"an attempt that is refunded can be made again":             refund,
		"an attempt is refunded once":                               refundOnce,
		"no later window gains from a refund":                       refundLate,
		"a window without attempts ends":                            emptied,
		"the same attempt is taken once":                            retried,
		"an attempt with several keys counts in each":               wide,
		"an attempt that one of its keys refuses counts in none":    wideRefused,
		"an attempt with several keys is refunded in each":          wideRefunded,
		"the tightest of several windows is reported":               wideReported,
		"a flood of networks does not fill Redis":                   wideFlood,
		"attempts that do not count take no place of others":        wideFree,
		"100 attempts at once from as many keys of a wider one":     wideBurst,
		"100 attempts at once get the limit":                        burst,
		"100 that are refunded at once leave the key free":          burstRefunded,
		"refunds and attempts at once never pass the limit":         mixed,
		"an attempt counts although the client hangs up":            hangUp,
		"the time to the end of a window is in seconds, rounded up": seconds,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &suite{T: t, backend: open(t), window: time.Minute}
			if s.Advance == nil {
				s.window = time.Second
			}
			test(s)
		})
	}
}

func (s *suite) pass(d time.Duration) {
	if s.Advance == nil {
		time.Sleep(d)
		return
	}
	s.Advance(d)
}

// limiter returns a limiter of the application "svc".
func limiter(t testing.TB, client redis.UniversalClient, name string, limit int, window time.Duration) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(ratelimit.Options{Client: client, App: "svc", Name: name, Limit: limit, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// limiters returns the limiter of that name, one for each client.
func (s *suite) limiters(name string, window time.Duration) []*ratelimit.Limiter {
	s.Helper()
	all := make([]*ratelimit.Limiter, len(s.Clients))
	for i, client := range s.Clients {
		all[i] = limiter(s, client, name, limit, window)
	}
	return all
}

func (s *suite) limiter() *ratelimit.Limiter { return s.limiters("login", s.window)[0] }

// long is for tests in which the window must not end.
func (s *suite) long() *ratelimit.Limiter { return s.limiters("login", time.Hour)[0] }

func (s *suite) spend(l *ratelimit.Limiter, key string, allowed bool, remaining int) ratelimit.Decision {
	s.Helper()
	d, err := l.Spend(s.Context(), key)
	if err != nil {
		s.Fatal(err)
	}
	if d.Allowed != allowed || d.Remaining != remaining || d.Limit != limit {
		s.Fatalf("got %+v, want allowed %t with %d remaining", d, allowed, remaining)
	}
	if d.Reset <= 0 || d.Reset > d.Window {
		s.Fatalf("the window of %v ends in %v", d.Window, d.Reset)
	}
	return d
}

func (s *suite) refund(l *ratelimit.Limiter, d ratelimit.Decision, remaining int) ratelimit.Decision {
	s.Helper()
	after, err := l.Refund(s.Context(), d)
	if err != nil {
		s.Fatal(err)
	}
	if after.Remaining != remaining || !after.Allowed || after.Reset <= 0 || after.Reset > after.Window {
		s.Fatalf("got %+v, want %d remaining", after, remaining)
	}
	return after
}

func (s *suite) same(got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Fatalf("differs (-want +got):\n%s", diff)
	}
}

const atOnce = 100

// together calls do atOnce times at the same moment, with limiters on the
// clients in turn.
func (s *suite) together(do func(l *ratelimit.Limiter, i int)) {
	if s.Advance != nil {
		s.Skip("miniredis takes too long for 100 scripts on a slow machine; Redis itself is asked")
	}
	limiters, gate := s.limiters("login", time.Hour), make(chan struct{})
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			<-gate
			do(limiters[i%len(limiters)], i)
		})
	}
	close(gate)
	all.Wait()
}

func burst(s *suite) {
	var allowed atomic.Int64
	s.together(func(l *ratelimit.Limiter, _ int) {
		d, err := l.Spend(s.Context(), "a")
		if err != nil {
			s.Error(err)
		}
		if d.Allowed {
			allowed.Add(1)
		}
	})
	s.same(allowed.Load(), int64(limit))
}

func burstRefunded(s *suite) {
	s.together(func(l *ratelimit.Limiter, _ int) {
		d, err := l.Spend(s.Context(), "a")
		if err != nil {
			s.Error(err)
		}
		if _, err := l.Refund(s.Context(), d); err != nil {
			s.Error(err)
		}
	})
	s.spend(s.long(), "a", true, limit-1)
}

// mixed refunds half of the attempts; the others stay, so at most the limit
// of them may have been allowed.
func mixed(s *suite) {
	var kept atomic.Int64
	s.together(func(l *ratelimit.Limiter, i int) {
		d, err := l.Spend(s.Context(), "a")
		if err != nil {
			s.Error(err)
		}
		switch {
		case i%2 == 0:
			for range 3 {
				if _, err := l.Refund(s.Context(), d); err != nil {
					s.Error(err)
				}
			}
		case d.Allowed:
			kept.Add(1)
		}
	})
	for left := limit - int(kept.Load()); left > 0; left-- {
		s.spend(s.long(), "a", true, left-1)
	}
	s.spend(s.long(), "a", false, 0)
}

func hangUp(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	l := s.long()
	d, err := l.Spend(ctx, "a")
	if err != nil || !d.Allowed || d.Remaining != limit-1 {
		s.Fatalf("got %+v, %v", d, err)
	}
	s.spend(l, "a", true, limit-2)
	if d, err = l.Refund(ctx, d); err != nil || d.Remaining != limit-1 {
		s.Fatalf("refund: got %+v, %v", d, err)
	}
}

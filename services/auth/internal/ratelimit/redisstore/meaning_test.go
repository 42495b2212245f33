package redisstore_test

import (
	"time"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

func spend(s *suite) {
	l := s.long()
	for remaining := limit - 1; remaining >= 0; remaining-- {
		s.spend(l, "a", true, remaining)
	}
	for range 3 {
		s.spend(l, "a", false, 0)
	}
}

func refusedIsFree(s *suite) {
	l := s.long()
	first := s.spend(l, "a", true, limit-1)
	for remaining := limit - 2; remaining >= 0; remaining-- {
		s.spend(l, "a", true, remaining)
	}
	for range 10 {
		refused := s.spend(l, "a", false, 0)
		after, err := l.Refund(s.Context(), refused, "a")
		if err != nil {
			s.Fatal(err)
		}
		s.same(after.Allowed, false)
	}
	s.refund(l, "a", first, 1)
	s.spend(l, "a", true, 0)
	s.spend(l, "a", false, 0)
}

func apart(s *suite) {
	l, other := s.long(), s.limiters("password", time.Hour)[0]
	for remaining := limit - 1; remaining >= 0; remaining-- {
		s.spend(l, "a", true, remaining)
	}
	s.spend(l, "b", true, limit-1)
	s.spend(l, "", true, limit-1)
	s.spend(other, "a", true, limit-1)
	for _, key := range []string{"*", "a*", "{a}", "a\x00", "ä", string(make([]byte, 10_000)), string(make([]byte, 10_001))} {
		s.spend(l, key, true, limit-1)
	}
}

func window(s *suite) {
	l := s.limiter()
	first := s.spend(l, "a", true, limit-1)
	s.same(first.Window, s.window)
	s.pass(s.window / 2)
	for remaining := limit - 2; remaining >= 0; remaining-- {
		later := s.spend(l, "a", true, remaining)
		if later.Reset > first.Reset-s.window/2 {
			s.Fatalf("the window ends in %v, and half of it before in %v", later.Reset, first.Reset)
		}
	}
	refused := s.spend(l, "a", false, 0)
	s.pass(refused.Reset + time.Millisecond)
	s.spend(l, "a", true, limit-1)
}

func refund(s *suite) {
	l := s.long()
	for range 3 * limit {
		s.refund(l, "a", s.spend(l, "a", true, limit-1), limit)
	}
	s.spend(l, "a", true, limit-1)
	s.refund(l, "a", s.spend(l, "a", true, limit-2), limit-1)
	s.spend(l, "a", true, limit-2)
}

func refundOnce(s *suite) {
	l := s.long()
	one := s.spend(l, "a", true, limit-1)
	s.spend(l, "a", true, limit-2)
	for range 5 {
		s.refund(l, "a", one, limit-1)
	}
	for remaining := limit - 2; remaining >= 0; remaining-- {
		s.spend(l, "a", true, remaining)
	}
	s.spend(l, "a", false, 0)
	s.refund(l, "b", one, limit) // of another key
	s.spend(l, "a", false, 0)
}

func refundLate(s *suite) {
	l := s.limiter()
	old := s.spend(l, "a", true, limit-1)
	s.pass(old.Reset + time.Millisecond)
	s.spend(l, "a", true, limit-1)
	s.refund(l, "a", old, limit-1)
	s.spend(l, "a", true, limit-2)
}

func emptied(s *suite) {
	l := s.limiter()
	d := s.spend(l, "a", true, limit-1)
	s.pass(s.window / 2)
	s.same(s.refund(l, "a", d, limit).Reset, s.window)
	if again := s.spend(l, "a", true, limit-1); again.Reset <= s.window/2 {
		s.Fatalf("the window ends in %v", again.Reset)
	}
}

func retried(s *suite) {
	key := func(limit int) []ratelimit.Key {
		return []ratelimit.Key{{Name: "k", Limit: limit}, {Name: "wider", Limit: limit}}
	}
	want := func(c ratelimit.Count, err error, taken bool, attempts int) {
		s.Helper()
		if err != nil || c.Taken != taken || len(c.Windows) != 2 || c.Windows[0].Attempts != attempts || c.Windows[1].Attempts != attempts {
			s.Fatalf("got %+v, %v", c, err)
		}
	}
	for range 3 { // a reply was lost, and the call made again
		c, err := s.Stores[0].Spend(s.Context(), "attempt", time.Hour, key(1)...)
		want(c, err, true, 1)
	}
	c, err := s.Stores[0].Spend(s.Context(), "another", time.Hour, key(1)...)
	want(c, err, false, 1)
	if c.Windows[0].Left <= 0 || c.Windows[1].Left <= 0 {
		s.Fatalf("got %+v", c)
	}
	for range 3 {
		c, err := s.Stores[0].Refund(s.Context(), "attempt", key(1)...)
		want(c, err, false, 0)
	}
}

func seconds(s *suite) {
	l := s.limiters("login", 2500*time.Millisecond)[0]
	d := s.spend(l, "a", true, limit-1)
	s.same([]int{d.WindowSeconds(), d.ResetSeconds()}, []int{3, 3})
	if s.Advance == nil {
		return
	}
	for _, step := range []struct {
		pass time.Duration
		want int
	}{{499 * time.Millisecond, 3}, {time.Millisecond, 2}, {1999 * time.Millisecond, 1}} {
		s.pass(step.pass)
		d, err := l.Spend(s.Context(), "a")
		if err != nil {
			s.Fatal(err)
		}
		s.same(d.ResetSeconds(), step.want)
	}
}

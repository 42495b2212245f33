package ratelimit_test

import (
	"time"
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
		after, err := l.Refund(s.Context(), refused)
		if err != nil {
			s.Fatal(err)
		}
		s.same(after.Allowed, false)
	}
	s.refund(l, first, 1)
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

// windowSetBack sets the expiry of a window to what Redis has for it once its clock was set back by an hour.
func windowSetBack(s *suite) {
	l := s.limiter()
	for left := limit - 1; left >= 0; left-- {
		s.spend(l, "anna", true, left)
	}
	set, err := s.Clients[0].PExpire(s.Context(), "svc:limit:login:anna", time.Hour+s.window).Result()
	if err != nil || !set {
		s.Fatal(set, err)
	}
	s.spend(l, "anna", false, 0) // which says when the window ends
	s.pass(s.window + 100*time.Millisecond)
	s.spend(l, "anna", true, limit-1)
}

func refund(s *suite) {
	l := s.long()
	for range 3 * limit {
		s.refund(l, s.spend(l, "a", true, limit-1), limit)
	}
	s.spend(l, "a", true, limit-1)
	s.refund(l, s.spend(l, "a", true, limit-2), limit-1)
	s.spend(l, "a", true, limit-2)
}

func refundOnce(s *suite) {
	l := s.long()
	one := s.spend(l, "a", true, limit-1)
	s.spend(l, "a", true, limit-2)
	for range 5 {
		s.refund(l, one, limit-1)
	}
	for remaining := limit - 2; remaining >= 0; remaining-- {
		s.spend(l, "a", true, remaining)
	}
	s.spend(l, "a", false, 0)
}

func refundLate(s *suite) {
	l := s.limiter()
	old := s.spend(l, "a", true, limit-1)
	s.pass(old.Reset + time.Millisecond)
	s.spend(l, "a", true, limit-1)
	s.refund(l, old, limit-1)
	s.spend(l, "a", true, limit-2)
}

func emptied(s *suite) {
	l := s.limiter()
	d := s.spend(l, "a", true, limit-1)
	s.pass(s.window / 2)
	s.same(s.refund(l, d, limit).Reset, s.window)
	if again := s.spend(l, "a", true, limit-1); again.Reset <= s.window/2 {
		s.Fatalf("the window ends in %v", again.Reset)
	}
}

func retried(s *suite) {
	l := s.long()
	first := s.spendAll(l, true, "a", "wider")
	for range 3 { // a reply was lost, and the call made again
		again, err := l.Repeat(s.Context(), first)
		if err != nil || !again.Allowed || again.Remaining != limit-1 {
			s.Fatalf("got %+v, %v", again, err)
		}
	}
	for range limit - 1 {
		s.spendAll(l, true, "a", "wider")
	}
	refused := s.spendAll(l, false, "a", "wider")
	if again, err := l.Repeat(s.Context(), first); err != nil || !again.Allowed || again.Remaining != 0 {
		s.Fatalf("counted before the limit was reached: got %+v, %v", again, err)
	}
	if again, err := l.Repeat(s.Context(), refused); err != nil || again.Allowed || again.Reset <= 0 {
		s.Fatalf("refused: got %+v, %v", again, err)
	}
	for range 3 {
		s.refund(l, first, 1)
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

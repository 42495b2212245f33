package ratelimit_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

// spendAll takes an attempt of several keys.
func (s *suite) spendAll(l *ratelimit.Limiter, allowed bool, keys ...string) ratelimit.Decision {
	s.Helper()
	d, err := l.Spend(s.Context(), keys...)
	if err != nil {
		s.Fatal(err)
	}
	if d.Allowed != allowed {
		s.Fatalf("%v: got %+v", keys, d)
	}
	return d
}

// wide spends a whole network from inside it: 5 for each address, 4 times as
// many for the street, 16 times as many for the town.
func wide(s *suite) {
	l := s.long()
	for street := range 4 {
		for address := range 4 {
			keys := []string{fmt.Sprintf("%d.%d", street, address), fmt.Sprint(street), "town"}
			for range limit {
				s.spendAll(l, true, keys...)
			}
			s.spendAll(l, false, keys...)
		}
		s.spendAll(l, false, fmt.Sprintf("%d.new", street), fmt.Sprint(street), "town")
	}
	s.spendAll(l, false, "new", "new street", "town")
	s.spendAll(l, true, "new", "new street", "new town")
}

func wideRefused(s *suite) {
	l := s.long()
	for range limit {
		s.spendAll(l, true, "full", "street", "town")
	}
	for range 10 * limit {
		s.spendAll(l, false, "full", "street", "town")
	}
	for i := range 3 * limit {
		s.spendAll(l, true, fmt.Sprint(i), "street", "town")
	}
	s.spendAll(l, false, "another", "street", "town")
	d := s.spendAll(l, true, "another", "another street", "town")
	s.same(d.Remaining, limit-1)
}

func wideRefunded(s *suite) {
	l := s.long()
	for i := range 20 * limit {
		keys := []string{fmt.Sprint(i), "street", "town"}
		d := s.spendAll(l, true, keys...)
		for range 2 {
			after, err := l.Refund(s.Context(), d)
			if err != nil {
				s.Fatal(err)
			}
			s.same([]int{after.Remaining, after.Limit}, []int{limit, limit})
		}
	}
}

func wideReported(s *suite) {
	l := s.long()
	numbers := func(d ratelimit.Decision) []int { return []int{d.Remaining, d.Limit} }
	s.same(numbers(s.spendAll(l, true, "1", "street", "town")), []int{limit - 1, limit})
	for i := range 4*limit - 2 {
		s.spendAll(l, true, fmt.Sprint("x", i), "street", "town")
	}
	s.same(numbers(s.spendAll(l, true, "2", "street", "town")), []int{0, 4 * limit})
	refused := s.spendAll(l, false, "3", "street", "town")
	s.same(numbers(refused), []int{0, 4 * limit})
	if refused.Reset <= 0 || refused.Reset > time.Hour {
		s.Fatalf("got %+v", refused)
	}
}

// wideFlood comes from more networks than Redis has place for. Their windows are not all kept, and no address that
// is alone loses its own.
func wideFlood(s *suite) {
	if s.Advance != nil {
		s.Skip("miniredis takes too long for sorted sets of thousands; Redis itself is asked")
	}
	l := s.limiters("signin", time.Hour)[0]
	for remaining := limit - 1; remaining >= 0; remaining-- {
		s.spend(l, "alone", true, remaining)
	}
	wide := limiter(s, s.Clients[0], "signin", 1000, time.Hour)
	for i := range 1000 {
		s.spendAll(wide, true, fmt.Sprint(i), fmt.Sprint("street", i), fmt.Sprint("town", i))
	}
	if n := s.Clients[0].DBSize(s.Context()).Val(); n > 300 {
		s.Fatalf("%d keys after a flood of 3,000 windows of up to 128 KB", n)
	}
	s.spendAll(wide, true, "999", "street999", "town999")
	if d := s.spendAll(wide, true, "999", "street999", "town999"); d.Remaining != 997 {
		s.Fatalf("the newest window lost attempts: %+v", d)
	}
	s.spend(l, "alone", false, 0)
}

// wideFree makes attempts that do not count: refused ones, and refunded ones. They take no place of a window, so that
// nobody has a full one forgotten by as many of them as they like.
func wideFree(s *suite) {
	l, noted := s.long(), func() int64 { return s.Clients[0].ZCard(s.Context(), "svc:newest:limit:login").Val() }
	for i := range 4 * limit {
		s.spendAll(l, true, fmt.Sprint(i), "street", "town")
	}
	before := noted()
	for i := range 20 {
		s.spendAll(l, false, "1", "street", "town")
		free := s.spendAll(l, true, fmt.Sprint("free", i), "free street", "town")
		if _, err := l.Refund(s.Context(), free); err != nil {
			s.Fatal(err)
		}
	}
	if after := noted(); before == 0 || after != before {
		s.Fatalf("%d places are taken, and %d were before", after, before)
	}
}

// wideBurst has as many addresses as attempts, all of one street, and then all
// of one town.
func wideBurst(s *suite) {
	var street, town atomic.Int64
	s.together(func(l *ratelimit.Limiter, i int) {
		spend := func(allowed *atomic.Int64, keys ...string) {
			d, err := l.Spend(s.Context(), keys...)
			if err != nil {
				s.Error(err)
			}
			if d.Allowed {
				allowed.Add(1)
			}
		}
		spend(&street, fmt.Sprint(i), "street", "town")
		spend(&town, fmt.Sprint("other", i), fmt.Sprint("street", i), "town 2")
	})
	s.same([]int64{street.Load(), town.Load()}, []int64{4 * limit, 16 * limit})
}

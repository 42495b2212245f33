package main

import "testing"

func TestFigures(t *testing.T) {
	for f, want := range map[float64]string{0.004: "0.00", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234.5: "1,235", 1234567: "1,234,567"} {
		if got := figure(f); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
	s := samples{3, 1, 2}
	if s.String() != "2.00 (1.00–3.00)" || (samples{4, 1, 2, 3}).median() != 2.5 || (samples{}).String() != "—" {
		t.Error(s, (samples{4, 1, 2, 3}).median())
	}
	if got := s.over(samples{1, 2, 0}); got.String() != "1.75 (0.50–3.00)" {
		t.Error(got)
	}
	if got := s.less(samples{1, 1, 0}, 2); got.String() != "1.00 (-1.00–2.00)" {
		t.Error(got)
	}
	if atLeast(2).met(s) != "≥ 2.00: met" || atMost(1).met(s) != "≤ 1.00: **missed**" {
		t.Error(atLeast(2).met(s), atMost(1).met(s))
	}
}

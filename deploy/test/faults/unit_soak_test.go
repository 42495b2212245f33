package faults

import (
	"fmt"
	"slices"
	"testing"
)

func TestSoak_FindsGrowthOverTheSecondHalf(t *testing.T) {
	for name, c := range map[string]struct {
		at   func(minute float64) float64
		want bool // whether it grew
	}{
		"steady":                    {func(float64) float64 { return 50 }, false},
		"up and down":               {func(m float64) float64 { return 50 + float64(int(m)%2) }, false},
		"in the first half only":    {func(m float64) float64 { return 50 + min(m, 60) }, false},
		"slowly":                    {func(m float64) float64 { return 50 + m/10 }, true},
		"within what is allowed":    {func(m float64) float64 { return 500 + m/10 }, false},
		"in the second half, fast":  {func(m float64) float64 { return 50 + max(0, m-60) }, true},
		"down in the second half":   {func(m float64) float64 { return 50 + max(0, 60-m) }, false},
		"a part of a large measure": {func(m float64) float64 { return 500 + 2*m }, true},
	} {
		var samples []sample
		for minute := range 121 {
			samples = append(samples, sample{"minute": float64(minute), "goroutines": c.at(float64(minute))})
		}
		l := &load{audit: audit{buyers: &buyers{journal: newJournal()}}}
		l.judgeGrowth(samples)
		if slices.Contains(l.violations, "goroutines grew") != c.want {
			t.Errorf("%s: %v", name, l.violations)
		}
	}
}

func TestSoak_TooFewSamplesAreNotJudged(t *testing.T) {
	for n, clean := range map[int]bool{3: false, 4: true} {
		l := &load{audit: audit{buyers: &buyers{journal: newJournal()}}}
		l.judgeGrowth(slices.Repeat([]sample{{"minute": 1, "goroutines": 20}}, n))
		if l.clean() != clean {
			t.Error(fmt.Sprintf("%d samples: ", n), l.violations)
		}
	}
}

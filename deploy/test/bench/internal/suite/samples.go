package suite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// samples are the figures of the rounds.
type samples []float64

func (s samples) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// String is the median with the least and the greatest.
func (s samples) String() string {
	if len(s) == 0 {
		return "—"
	}
	return fmt.Sprintf("%s (%s–%s)", figure(s.median()), figure(slices.Min(s)), figure(slices.Max(s)))
}

// over divides round by round.
func (s samples) over(other samples) samples {
	ratios := make(samples, 0, len(s))
	for i := range min(len(s), len(other)) {
		if other[i] > 0 {
			ratios = append(ratios, s[i]/other[i])
		}
	}
	return ratios
}

// less subtracts other, so many times, round by round.
func (s samples) less(other samples, times float64) samples {
	differences := make(samples, 0, len(s))
	for i := range min(len(s), len(other)) {
		differences = append(differences, s[i]-times*other[i])
	}
	return differences
}

// figure writes three digits that count, thousands apart.
func figure(f float64) string {
	switch {
	case f >= 1000:
		return count(int(f + 0.5))
	case f >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	default:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
}

// count writes a whole number.
func count(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString(" ")
		}
		b.WriteRune(d)
	}
	return b.String()
}

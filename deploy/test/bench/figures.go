package main

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

// String returns the median with the least and the greatest.
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

// figure writes three significant digits, with a comma between thousands.
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
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// page is the report, in Markdown.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// table writes a table; the first row is its head.
func (p *page) table(rows ...[]string) {
	p.line("")
	for i, row := range rows {
		p.line("| %s |", strings.Join(row, " | "))
		if i == 0 {
			p.line("|%s", strings.Repeat("---|", len(row)))
		}
	}
	p.line("")
}

// servers writes a table of servers under the same load.
func (p *page) servers(cells []cell, r []rounds) {
	rows := [][]string{{"server", "answers/s", "µs of processor per answer", "p50 ms", "p99 ms"}}
	for i, c := range cells {
		rows = append(rows, []string{c.name, r[i].rate.String(), r[i].cost.String(), r[i].p50.String(), r[i].p99.String()})
	}
	p.table(rows...)
}

// ratio compares with another server, by answers and by the processor time of one.
func (p *page) ratio(what string, ours, theirs rounds, wanted goal) {
	rate := ours.rate.over(theirs.rate)
	p.line("- %s: %s by answers/s, %s by processor time. Wanted %s.", what, rate, theirs.cost.over(ours.cost), wanted.met(rate))
}

// goal is what a figure should be.
type goal struct {
	limit float64
	most  bool // the figure may be at most limit, otherwise at least
}

func atLeast(limit float64) goal { return goal{limit: limit} }
func atMost(limit float64) goal  { return goal{limit: limit, most: true} }

// met returns the goal and whether the median meets it.
func (g goal) met(s samples) string {
	sign, ok := "≥", s.median() >= g.limit
	if g.most {
		sign, ok = "≤", s.median() <= g.limit
	}
	verdict := "**missed**"
	if ok {
		verdict = "met"
	}
	return fmt.Sprintf("%s %s: %s", sign, figure(g.limit), verdict)
}

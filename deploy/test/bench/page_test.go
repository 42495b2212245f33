package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// samples are the figures of the rounds.
type samples []float64

func (s samples) median() float64 { return s.quantile(0.5) }

// quantile returns the least figure that a share of them do not exceed, and the
// mean of the middle ones for the median; 0 without figures.
func (s samples) quantile(share float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	at := min(int(share*float64(len(sorted))), len(sorted)-1)
	if share == 0.5 && len(sorted)%2 == 0 {
		return (sorted[at-1] + sorted[at]) / 2
	}
	return sorted[at]
}

// String returns the median with the least and the greatest.
func (s samples) String() string {
	switch {
	case len(s) == 0:
		return ""
	case slices.Min(s) == slices.Max(s):
		return figure(s[0])
	default:
		return fmt.Sprintf("%s (%s–%s)", figure(s.median()), figure(slices.Min(s)), figure(slices.Max(s)))
	}
}

// over divides round by round.
func (s samples) over(other samples) samples {
	return s.pair(other, func(a, b float64) float64 { return a / b })
}

// pair combines two figures of each round.
func (s samples) pair(other samples, combine func(a, b float64) float64) samples {
	combined := make(samples, min(len(s), len(other)))
	for i := range combined {
		combined[i] = combine(s[i], other[i])
	}
	return combined
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
	case f == 0:
		return "0"
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

// row is a line of the page: what was measured, in which unit, of Pforte and of
// what it is compared with, and the ratio of both. The goal is for the ratio, or
// for Pforte's own figure where there is none or own is set.
type row struct {
	what, unit          string
	ours, beside, ratio samples
	goal                goal
	own                 bool
}

// faster compares two rates.
func faster(what string, ours, beside samples, wanted goal) row {
	return row{what: what, unit: "1/s", ours: ours, beside: beside, ratio: ours.over(beside), goal: wanted}
}

// sooner compares two durations, or other figures of which the lesser is better.
func sooner(what, unit string, ours, beside samples, wanted goal) row {
	return row{what: what, unit: unit, ours: ours, beside: beside, ratio: beside.over(ours), goal: wanted}
}

// page is the report of a section, in Markdown, and its picture, an SVG, if it has one.
type page struct {
	strings.Builder
	picture string
	// measured is in how many rounds.
	measured int
}

func (p *page) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// cells writes a table behind one blank line; the first row is its head.
func (p *page) cells(rows ...[]string) {
	if !strings.HasSuffix(p.String(), "\n\n") {
		p.line("")
	}
	for i, row := range rows {
		p.line("| %s |", strings.Join(row, " | "))
		if i == 0 {
			p.line("|%s", strings.Repeat("---|", len(row)))
		}
	}
}

// table writes what was measured. beside names what it is compared with.
func (p *page) table(beside string, rows ...row) {
	lines := [][]string{{"", "unit", "Pforte", beside, "ratio", "wanted", ""}}
	for _, r := range rows {
		judged := r.ratio
		if len(judged) == 0 || r.own {
			judged = r.ours
		}
		lines = append(lines, []string{r.what, r.unit, r.ours.String(), r.beside.String(), r.ratio.String(), r.goal.String(), r.goal.verdict(judged)})
	}
	p.cells(lines...)
}

// goal is what a figure should be. The zero goal is none.
type goal struct {
	limit         float64
	least, atMost bool
}

func atLeast(limit float64) goal { return goal{limit: limit, least: true} }
func atMost(limit float64) goal  { return goal{limit: limit, atMost: true} }

func (g goal) String() string {
	switch {
	case g.least:
		return "≥ " + figure(g.limit)
	case g.atMost:
		return "≤ " + figure(g.limit)
	default:
		return ""
	}
}

// verdict returns whether the median meets the goal.
func (g goal) verdict(s samples) string {
	switch {
	case !g.least && !g.atMost:
		return ""
	case g.least && s.median() < g.limit, g.atMost && s.median() > g.limit:
		return "**missed**"
	default:
		return "met"
	}
}

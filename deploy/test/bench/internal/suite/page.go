package suite

import (
	"fmt"
	"strings"
)

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

// goal is a wish for a figure.
type goal struct {
	limit float64
	most  bool // the figure may be at most limit, otherwise at least
}

func atLeast(limit float64) goal { return goal{limit: limit} }
func atMost(limit float64) goal  { return goal{limit: limit, most: true} }

// met says what was wanted and whether the median is that.
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

package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Sizes of the picture's two charts, in its own units.
const (
	chartWidth, chartHeight = 330.0, 220.0
	chartLeft, chartTop     = 50.0, 30.0
	chartApart              = 90.0
)

var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"}

// chart is a pair of axes at a place of the picture; the values of both axes are
// scaled to 0..1.
type chart struct {
	strings.Builder
	left float64
}

func (c *chart) at(x, y float64) (left, top float64) {
	return c.left + x*chartWidth, chartTop + (1-y)*chartHeight
}

func (c *chart) text(x, y float64, anchor, text string) {
	left, top := c.at(x, y)
	_, _ = fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", left, top, anchor, text)
}

// line draws a line through points, dashed or solid.
func (c *chart) line(style string, xs, ys []float64) {
	points := make([]string, len(xs))
	for i := range xs {
		left, top := c.at(xs[i], min(ys[i], 1.05))
		points[i] = fmt.Sprintf("%.1f,%.1f", left, top)
	}
	_, _ = fmt.Fprintf(c, `<polyline fill="none" %s points="%s"/>`+"\n", style, strings.Join(points, " "))
}

// axes draws the frame, with what stands at places of both axes.
func (c *chart) axes(title string, ticks map[string]float64) {
	c.text(0, 1.06, "start", title)
	c.text(0.5, -0.17, "middle", "offered load ÷ capacity")
	c.line(`stroke="#555"`, []float64{0, 0, 1}, []float64{1, 0, 0})
	for _, factor := range offered {
		c.text(scaled(factor), -0.08, "middle", fmt.Sprint(factor))
	}
	for _, label := range slices.Sorted(maps.Keys(ticks)) {
		y := ticks[label]
		c.text(-0.015, y-0.015, "end", label)
		c.line(`stroke="#ddd"`, []float64{0, 1}, []float64{y, y})
	}
}

// scaled places a load on the horizontal axis.
func scaled(factor float64) float64 { return factor / (offered[len(offered)-1] * 1.03) }

// magnitude places milliseconds from 1 to 10,000 on a logarithmic axis.
func magnitude(ms float64) float64 { return max(math.Log10(max(ms, 1))/4, 0) }

// picture draws goodput and p99 over offered load, a line for each kind.
func picture(curves []curve) string {
	goodput, p99 := &chart{left: chartLeft}, &chart{left: chartLeft + chartWidth + chartApart}
	goodput.axes("goodput ÷ capacity", map[string]float64{"0": 0, "0.5": 0.4, "1": 0.8})
	goodput.line(`stroke="#999" stroke-dasharray="4 3"`, []float64{0, scaled(1), 1}, []float64{0, 0.8, 0.8})
	p99.axes("p99 of the answers, ms", map[string]float64{"1": 0, "10": 0.25, "100": 0.5, "1,000": 0.75, "10,000": 1})
	for i, c := range curves {
		style := fmt.Sprintf(`stroke="%s" stroke-width="2"`, colors[i])
		xs, rates, times := make([]float64, len(offered)), make([]float64, len(offered)), make([]float64, len(offered))
		for j, factor := range offered {
			xs[j], rates[j], times[j] = scaled(factor), 0.8*c.goodput[j].over(c.capacity).median(), magnitude(c.p99[j].median())
		}
		goodput.line(style, xs, rates)
		p99.line(style, xs, times)
		legend := 0.62 * float64(i)
		goodput.line(style, []float64{legend, legend + 0.05}, []float64{-0.28, -0.28})
		goodput.text(legend+0.07, -0.3, "start", strings.ReplaceAll(string(c.kind), "`", ""))
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+
		"\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s%s</svg>\n", p99.left+chartWidth+20, chartTop+chartHeight+80, goodput, p99)
}

package observability

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// query evaluates an expression at a minute of a world and returns the values by what
// tells them apart, "" for a value alone.
func query(t *testing.T, w world, expression, label string, minute int64) map[string]float64 {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	q, err := engine.NewInstantQuery(t.Context(), w.queryable(), nil, expression, time.Unix(60*minute, 0))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	values := map[string]float64{}
	for _, sample := range vector {
		values[sample.Metric.Get(label)] = sample.F
	}
	return values
}

// The dashboard's queries of sales, on a day whose sales are known.
func TestDashboard_ShowsWhatWasSold(t *testing.T) {
	w := build(t, healthy(), nil)
	day := float64(lasts - 1) // minutes of it that the world has, which increase extends to the day's ends by half a minute
	for title, want := range map[string]struct {
		label  string
		values map[string]float64
	}{
		"Income this month":                   {"network", map[string]float64{"eip155:8453": 2.5}},
		"Refunded this month":                 {"network", map[string]float64{"eip155:8453": 0.5}},
		"Refused share":                       {"", map[string]float64{"": 1 - 50.0/60}},
		"Days until the free settlements end": {"", map[string]float64{"": 600 / (45 * day / 7)}},
		"Decided by hand":                     {"to", map[string]float64{"dead": 2}},
		"Sales a day by operation":            {"operation", map[string]float64{"base-transaction": 40 * day, "base-token-transfer": 5 * day}},
		"Sales a day by transport":            {"transport", map[string]float64{"http": 30 * day, "mcp": 15 * day}},
		"Questions answered again a day":      {"", map[string]float64{"": day}},
	} {
		got := query(t, w, panelQuery(t, title), want.label, lasts-1)
		for name, value := range want.values {
			if math.Abs(got[name]-value) > 0.01*value {
				t.Errorf("%s: %q is %g, want %g", title, name, got[name], value)
			}
		}
		if len(got) != len(want.values) {
			t.Errorf("%s shows %v, want %v", title, got, want.values)
		}
	}
}

// panelQuery returns the one query of a panel.
func panelQuery(t *testing.T, title string) string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/pforte.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		if panel.Title == title && len(panel.Targets) == 1 {
			return panel.Targets[0].Expr
		}
	}
	t.Fatalf("no panel %q with one query", title)
	return ""
}

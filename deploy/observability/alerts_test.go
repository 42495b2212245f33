package observability

import (
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// A world lasts so many minutes, and its fault begins in the middle.
const (
	lasts  = 240
	begins = 120
)

// world are series with their values, one a minute.
type world []promql.Series

// build computes the minutes: first by before, then by after.
func build(t *testing.T, before, after series) world {
	t.Helper()
	var w world
	for name := range before.with(after) {
		metric, err := parser.NewParser(parser.Options{}).ParseMetric(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := promql.Series{Metric: ofProgram(metric)}
		value := math.NaN()
		for minute := range int64(lasts) {
			shape, there := before[name]
			if change, changed := after[name]; changed && minute >= begins {
				shape, there = change, true
			}
			if !there {
				continue
			}
			if value = shape(value); !math.IsNaN(value) {
				s.Floats = append(s.Floats, promql.FPoint{T: minute * time.Minute.Milliseconds(), F: value})
			}
		}
		w = append(w, s)
	}
	slices.SortFunc(w, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return w
}

// ofProgram adds the labels that a scrape does.
func ofProgram(metric labels.Labels) labels.Labels {
	program, _, _ := strings.Cut(metric.Get(model.MetricNameLabel), "_")
	if job := metric.Get("job"); job != "" {
		program = job
	}
	return labels.NewBuilder(metric).Set("job", program).Set("instance", program+":1").Labels()
}

// queryable is the world as Prometheus's storage.
func (w world) queryable() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			found := &seriesSet{}
			for _, s := range w {
				if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
					found.rest = append(found.rest, promql.NewStorageSeries(s))
				}
			}
			return found
		},
	}}
}

// seriesSet is a storage.SeriesSet of what was found.
type seriesSet struct {
	at   storage.Series
	rest []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.at, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// firing is an alert with its labels, and the minute it began.
type firing struct {
	since  int64
	labels labels.Labels
}

// firings evaluates a rule every minute, as Prometheus does: it fires for what has been
// true for as long as the rule wants.
func firings(t *testing.T, w world, rule rulefmt.Rule) []firing {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	query, err := engine.NewRangeQuery(t.Context(), w.queryable(), nil, rule.Expr, time.Unix(0, 0), time.Unix(60*(lasts-1), 0), time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", rule.Alert, err)
	}
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%s: %v", rule.Alert, err)
	}
	var found []firing
	for _, s := range matrix {
		var began int64
		for i, point := range s.Floats {
			if i == 0 || point.T-s.Floats[i-1].T > time.Minute.Milliseconds() {
				began = point.T
			}
			if point.T-began >= time.Duration(rule.For).Milliseconds() {
				found = append(found, firing{point.T / time.Minute.Milliseconds(), s.Metric})
				break
			}
		}
	}
	return found
}

func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse([]byte(read(t, "alerts.yml")), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// named is a label that a text uses without a condition.
var named = regexp.MustCompile(`{{ \$labels\.(\w+)`)

// fired returns the alerts that fire in a world, and faults in how they do it.
func fired(t *testing.T, w world) []string {
	t.Helper()
	var names []string
	for _, rule := range rules(t) {
		for _, f := range firings(t, w, rule) {
			names = append(names, rule.Alert)
			if f.since < begins {
				t.Errorf("%s fires %d minutes before the fault", rule.Alert, begins-f.since)
			}
			for _, name := range named.FindAllStringSubmatch(rule.Annotations["summary"], -1) {
				if !f.labels.Has(name[1]) {
					t.Errorf("%s names the label %s, which %s does not have", rule.Alert, name[1], f.labels)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestAlerts_FireForTheirFaultOnly(t *testing.T) {
	described := map[string]bool{}
	for name, fault := range faults {
		alert, _, _ := strings.Cut(name, ",")
		described[alert] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := append([]string{alert}, fault.also...)
			slices.Sort(want)
			if diff := cmp.Diff(want, fired(t, build(t, healthy(), fault.changes))); diff != "" {
				t.Errorf("differs (-want +fired):\n%s", diff)
			}
		})
	}
	for _, rule := range rules(t) {
		if !described[rule.Alert] {
			t.Errorf("no fault is described that %s is there for", rule.Alert)
		}
	}
}

func TestAlerts_AreSilentWhileAllIsWell(t *testing.T) {
	if names := fired(t, build(t, healthy(), nil)); len(names) > 0 {
		t.Errorf("these fire: %v", names)
	}
}

func TestAlerts_AreSilentAfterAStart(t *testing.T) {
	before := healthy()
	for name := range before {
		if !strings.HasPrefix(name, "up{") {
			before[name] = gone
		}
	}
	if names := fired(t, build(t, before, healthy())); len(names) > 0 {
		t.Errorf("these fire: %v", names)
	}
}

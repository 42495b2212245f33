package observability

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const docs = "../docs/"

func page(t *testing.T) map[string]Metric {
	t.Helper()
	metrics, err := ReadPage(docs + "metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(metrics) < 30 {
		t.Fatalf("the page lists only %d metrics", len(metrics))
	}
	return metrics
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checker holds expressions against the page.
type checker struct {
	metrics map[string]Metric
	text    string // the page
	used    map[string]bool
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	return &checker{metrics: page(t), text: read(t, docs+"metrics.md"), used: map[string]bool{}}
}

// faults returns what is wrong with an expression.
func (c *checker) faults(expression string) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	known := []string{"job", "instance"}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			labels, wrong := c.selector(selector)
			known = append(known, labels...)
			faults = append(faults, wrong...)
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var grouped []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			grouped = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				grouped = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range grouped {
			if !slices.Contains(known, label) {
				faults = append(faults, fmt.Sprintf("no metric here has the label %s", label))
			}
		}
		return nil
	})
	return faults
}

// selector returns the labels that a metric has, and what is wrong with its use.
func (c *checker) selector(s *parser.VectorSelector) (known, faults []string) {
	m, ok := c.metrics[s.Name]
	known = m.Labels
	if !ok {
		base := s.Name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if m, ok = c.metrics[base]; !ok || m.Type != "histogram" {
			return nil, []string{s.Name + " is not on the page"}
		}
		known = m.Labels
		if strings.HasSuffix(s.Name, "_bucket") {
			known = append([]string{"le"}, m.Labels...)
		}
	}
	c.used[m.Name] = true
	for _, matcher := range s.LabelMatchers {
		if matcher.Name == model.MetricNameLabel || matcher.Name == "job" || matcher.Name == "instance" {
			continue
		}
		if !slices.Contains(known, matcher.Name) {
			faults = append(faults, fmt.Sprintf("%s has no label %s", s.Name, matcher.Name))
		}
		faults = append(faults, c.values(m, matcher)...)
	}
	return known, faults
}

// values holds the values of a label against the page, where it lists them.
func (c *checker) values(m Metric, matcher *labels.Matcher) []string {
	if slices.Contains([]string{"route", "status", "code"}, matcher.Name) {
		return nil
	}
	var faults []string
	for value := range strings.SplitSeq(matcher.Value, "|") {
		if value != "" && !strings.Contains(m.Meaning, "`"+value+"`") && (matcher.Name != "outcome" || !strings.Contains(c.text, "`"+value+"`")) && value != "pipeline" {
			faults = append(faults, fmt.Sprintf("%s: %s is never %q", m.Name, matcher.Name, value))
		}
	}
	return faults
}

func TestAlerts_UseExistingMetricsAndHaveARunbook(t *testing.T) {
	c := newChecker(t)
	runbook := read(t, docs+"observability.md")
	alerts := rules(t)
	for _, rule := range alerts {
		for _, fault := range c.faults(rule.Expr) {
			t.Errorf("%s: %s", rule.Alert, fault)
		}
		if s := rule.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s has the severity %q", rule.Alert, s)
		}
		if want := "deploy/docs/observability.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook"] != want || rule.Annotations["summary"] == "" {
			t.Errorf("%s has the annotations %v", rule.Alert, rule.Annotations)
		}
		if !strings.Contains(runbook, "\n### "+rule.Alert+"\n\n") {
			t.Errorf("%s has no lines in the runbook", rule.Alert)
		}
	}
	if entries := strings.Count(runbook, "\n### "); entries != len(alerts) {
		t.Errorf("the runbook has %d alerts, alerts.yml %d", entries, len(alerts))
	}
}

func TestDashboard_UsesExistingMetrics(t *testing.T) {
	c := newChecker(t)
	var dashboard struct {
		UID, Title string
		Panels     []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/pforte.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] || panel.Title == "" || panel.GridPos.X+panel.GridPos.W > 24 || panel.GridPos.H == 0 {
			t.Errorf("the panel %d %q is malformed", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		if (panel.Type == "row" || panel.Type == "text") != (len(panel.Targets) == 0) {
			t.Errorf("%s: %d queries", panel.Title, len(panel.Targets))
		}
		for _, target := range panel.Targets {
			for _, fault := range c.faults(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")) {
				t.Errorf("%s: %s", panel.Title, fault)
			}
			if target.LegendFormat == "" {
				t.Errorf("%s: a line without a name", panel.Title)
			}
		}
	}
	if dashboard.UID == "" || dashboard.Title == "" || len(ids) < 30 {
		t.Errorf("got %d panels in %q", len(ids), dashboard.Title)
	}
	for name, m := range c.metrics {
		if !c.used[name] && m.Program != "others" && m.Program != "proxy" {
			t.Errorf("%s is shown nowhere", name)
		}
	}
}

func TestExpressions_WithAMistakeAreFound(t *testing.T) {
	c := newChecker(t)
	for _, expression := range []string{
		`rate(auth_logins_total[5m]`,
		`auth_login_total`,
		`auth_logins_total{result="success"}`,
		`auth_logins_total{outcome="succeeded"}`,
		`sum by (outcome) (auth_passwords_waiting)`,
		`auth_logins_total_count`,
		`sum by (le) (rate(auth_http_request_duration_seconds_count[5m]))`,
		`verifier_settlements_left / on (chain) verifier_settlements_limit`,
	} {
		if len(c.faults(expression)) == 0 {
			t.Errorf("nothing is found in %s", expression)
		}
	}
}

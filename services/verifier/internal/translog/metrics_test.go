package translog_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/services/verifier/internal/translog"
)

func TestRegister_AddsTheMetricsOfThePage(t *testing.T) {
	w := newWorld(t, 1)
	n := w.open("sqlite::memory:", w.policy(1))
	n.run()
	n.waitFor("the first audit", n.audited(true))
	registry := prometheus.NewRegistry()
	n.must(n.Register(registry))
	families, err := registry.Gather()
	n.must(err)
	got := map[string]string{}
	for _, f := range families {
		got[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	page, err := os.ReadFile("../../../../deploy/docs/metrics.md")
	n.must(err)
	want := map[string]string{}
	rows := regexp.MustCompile("(?m)^\\| `(verifier_log_\\w+)` \\| (\\w+) \\|")
	for _, row := range rows.FindAllStringSubmatch(string(page), -1) {
		want[row[1]] = row[2]
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 10 {
		t.Errorf("the page has (-), the log has (+):\n%s", diff)
	}
	n.must(n.store.Freeze(t.Context(), 1, translog.FrozenFork))
	families, err = registry.Gather()
	n.must(err)
	var frozen []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "verifier_log_frozen" && m.GetGauge().GetValue() == 1 {
				frozen = append(frozen, m.GetLabel()[0].GetValue())
			}
		}
	}
	if !slices.Equal(frozen, []string{translog.FrozenFork}) {
		t.Errorf("frozen by %v", frozen)
	}
}

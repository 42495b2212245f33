package translog_test

import (
	"os"
	"path/filepath"
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

// A log that cannot step because of its mark must raise an alarm.
func TestRegister_AMarkThatCannotBeReadHidesNoMetric(t *testing.T) {
	w := newWorld(t, 0)
	mark := filepath.Join(t.TempDir(), "mark")
	n := w.open("sqlite::memory:", w.policy(0), func(o *translog.Options) { o.Mark = mark })
	n.step()
	w.must(os.WriteFile(mark, []byte("no checkpoint"), 0o600))
	if err := n.Step(t.Context()); err == nil {
		t.Error("the step succeeds")
	}
	registry := prometheus.NewRegistry()
	w.must(n.Register(registry))
	families, err := registry.Gather()
	w.must(err)
	var got []string
	for _, f := range families {
		got = append(got, f.GetName())
	}
	if !slices.Contains(got, "verifier_log_queue_age_seconds") {
		t.Errorf("there are %v", got)
	}
}

package httpapi_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

func TestThePageListsTheMetricsOfTheLog(t *testing.T) {
	w, l := openLogged(t)
	w.must(w.receipts.Step(t.Context()))
	w.must(httpapi.RegisterLog(w.registry, w.receipts, w.clock))
	families, err := w.registry.Gather()
	w.must(err)
	got := map[string]string{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "verifier_log_") {
			got[f.GetName()] = strings.ToLower(f.GetType().String())
		}
	}
	page, err := os.ReadFile("../../../../deploy/docs/metrics.md")
	w.must(err)
	want := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(verifier_log_\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		want[row[1]] = row[2]
	}
	if len(want) != 10 {
		t.Fatalf("the page has %v", want)
	}
	for _, absent := range []string{"verifier_log_witness_age_seconds", "verifier_log_witness_errors_total", "verifier_log_audit_ok", "verifier_log_audit_age_seconds"} {
		delete(want, absent) // there is no witness, and was no audit
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page has (-), the verifier has (+):\n%s", diff)
	}
	w.must(l.Freeze(t.Context(), 1, translog.FrozenFork))
	families, err = w.registry.Gather()
	w.must(err)
	var frozen []string
	for _, f := range families {
		if f.GetName() != "verifier_log_frozen" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() == 1 {
				frozen = append(frozen, m.GetLabel()[0].GetValue())
			}
		}
	}
	if !slices.Equal(frozen, []string{translog.FrozenFork}) {
		t.Errorf("frozen by %v", frozen)
	}
}

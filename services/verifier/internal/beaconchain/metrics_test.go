package beaconchain_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
)

func TestRegister_AddsTheMetricsOfThePage(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	registry := prometheus.NewRegistry()
	failures, err := beaconchain.NewFailures(registry)
	w.must(err)
	failures.Of("dev")("node")
	w.must(w.chain.Register(registry))
	families, err := registry.Gather()
	w.must(err)
	got := map[string]string{}
	for _, f := range families {
		got[f.GetName()] = strings.ToLower(f.GetType().String())
		if f.GetName() != "verifier_finality_failures_total" {
			continue
		}
		if n := len(f.GetMetric()); n != len(beaconchain.Causes) {
			t.Errorf("failures are counted for %d causes, want %d from zero", n, len(beaconchain.Causes))
		}
	}
	page, err := os.ReadFile("../../../../deploy/docs/metrics.md")
	w.must(err)
	want := map[string]string{}
	rows := regexp.MustCompile("(?m)^\\| `(verifier_finality_\\w+)` \\| (\\w+) \\|")
	for _, row := range rows.FindAllStringSubmatch(string(page), -1) {
		want[row[1]] = row[2]
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 5 {
		t.Errorf("the page has (-), the chain has (+):\n%s", diff)
	}
}

package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
)

func TestWhatHappensIsCounted(t *testing.T) {
	w := open(t, nil)
	w.post("")
	w.buy("1")
	w.buy("1")
	w.do(http.MethodGet, "/no/such/path/of/a/client", "")
	w.do("BREW", base, "")
	want := `
# HELP verifier_http_requests_total Requests answered, by route, method and status.
# TYPE verifier_http_requests_total counter
verifier_http_requests_total{method="GET",route="none",status="404"} 1
verifier_http_requests_total{method="POST",route="/v1/verify/base-transaction",status="200"} 2
verifier_http_requests_total{method="POST",route="/v1/verify/base-transaction",status="402"} 1
verifier_http_requests_total{method="other",route="/v1/verify/base-transaction",status="405"} 1
# HELP verifier_answer_lookups_total Looks for an answer signed before, by result: hit, miss.
# TYPE verifier_answer_lookups_total counter
verifier_answer_lookups_total{result="hit"} 0
verifier_answer_lookups_total{result="miss"} 1
# HELP verifier_payments_unknown Payments whose settlement is neither known to have happened nor to have failed.
# TYPE verifier_payments_unknown gauge
verifier_payments_unknown 0
# HELP verifier_payments_unknown_oldest_seconds How long ago the oldest of these payments was claimed; 0 without one.
# TYPE verifier_payments_unknown_oldest_seconds gauge
verifier_payments_unknown_oldest_seconds 0
# HELP verifier_store_up 1 when the store answers, by store: database.
# TYPE verifier_store_up gauge
verifier_store_up{store="database"} 1
# HELP verifier_settlements_limit Free settlements that a month (UTC) has.
# TYPE verifier_settlements_limit gauge
verifier_settlements_limit 1000
# HELP verifier_settlements_left Free settlements left this month (UTC).
# TYPE verifier_settlements_left gauge
verifier_settlements_left 999
`
	err := testutil.GatherAndCompare(w.registry, strings.NewReader(want),
		"verifier_http_requests_total", "verifier_answer_lookups_total", "verifier_payments_unknown", "verifier_payments_unknown_oldest_seconds",
		"verifier_settlements_left", "verifier_settlements_limit", "verifier_store_up")
	if err != nil {
		t.Error(err)
	}
	counts, err := testutil.CollectAndFormat(w.registry, expfmt.TypeTextPlain, "verifier_payments_total")
	if err != nil {
		t.Fatal(err)
	}
	for outcome, n := range map[string]int{"paid": 1, "repeated": 1, "pending": 0, "reconciled_settled": 0} {
		if want := fmt.Sprintf("verifier_payments_total{outcome=%q} %d\n", outcome, n); !strings.Contains(string(counts), want) {
			t.Errorf("no %s in %s", want, counts)
		}
	}
}

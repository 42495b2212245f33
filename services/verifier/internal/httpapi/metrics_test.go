package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
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
# HELP verifier_payments_total Paid calls ended, by outcome.
# TYPE verifier_payments_total counter
verifier_payments_total{outcome="paid"} 1
verifier_payments_total{outcome="repeated"} 1
# HELP verifier_payments_unknown Payments whose settlement is neither known to have happened nor to have failed.
# TYPE verifier_payments_unknown gauge
verifier_payments_unknown 0
# HELP verifier_settlements_left Free settlements left this month (UTC).
# TYPE verifier_settlements_left gauge
verifier_settlements_left 999
`
	err := testutil.GatherAndCompare(w.registry, strings.NewReader(want),
		"verifier_http_requests_total", "verifier_payments_total", "verifier_payments_unknown", "verifier_settlements_left")
	if err != nil {
		t.Error(err)
	}
}

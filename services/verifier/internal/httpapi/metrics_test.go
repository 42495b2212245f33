package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

func TestMetrics_CountWhatHappens(t *testing.T) {
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
	sales, err := testutil.CollectAndFormat(w.registry, expfmt.TypeTextPlain, "verifier_sales_total")
	if err != nil {
		t.Fatal(err)
	}
	for labels, n := range map[string]int{
		`operation="base-transaction",outcome="paid",transport="http"`:     1,
		`operation="base-transaction",outcome="repeated",transport="http"`: 1,
		`operation="base-transaction",outcome="pending",transport="http"`:  0,
	} {
		if want := fmt.Sprintf("verifier_sales_total{%s} %d\n", labels, n); !strings.Contains(string(sales), want) {
			t.Errorf("no %s in %s", want, sales)
		}
	}
	for outcome, n := range map[string]int{"paid": 1, "repeated": 1, "pending": 0, "reconciled_settled": 0} {
		if want := fmt.Sprintf("verifier_payments_total{outcome=%q} %d\n", outcome, n); !strings.Contains(string(counts), want) {
			t.Errorf("no %s in %s", want, counts)
		}
	}
}

// summed are the books of a test.
type summed struct {
	reads int
	fault error
}

func (s *summed) Totals(_ context.Context, f payment.Filter) ([]payment.Total, error) {
	s.reads++
	if f.State != payment.Settled || !f.From.Equal(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)) {
		return nil, fmt.Errorf("summed by %+v", f)
	}
	return []payment.Total{{Network: network, Asset: "0xother", Amount: "5"}, {Network: network, Asset: strings.ToLower(paymenttest.Token), Amount: "30000", Refunded: "10000"}}, s.fault
}

func (s *summed) Decided(context.Context) (settled, dead int, err error) { return 2, 1, s.fault }

func TestMetrics_BooksAreReadAtMostOnceAMinute(t *testing.T) {
	registry, books, now := prometheus.NewRegistry(), &summed{}, start
	if err := httpapi.RegisterBooks(registry, paymenttest.Terms(network), books, func() time.Time { return now }); err != nil {
		t.Fatal(err)
	}
	asset := strings.ToLower(paymenttest.Token)
	want := `
# HELP verifier_decisions_total Payments that operators decided, by the state that they led to: settled, dead.
# TYPE verifier_decisions_total counter
verifier_decisions_total{to="dead"} 1
verifier_decisions_total{to="settled"} 2
# HELP verifier_income_units_month Atomic units that payments claimed this month (UTC) have brought, by network and asset.
# TYPE verifier_income_units_month gauge
verifier_income_units_month{asset="0xother",network="eip155:84532"} 5
verifier_income_units_month{asset="` + asset + `",network="eip155:84532"} 30000
# HELP verifier_refunds_units_month Atomic units of these that were refunded, by network and asset.
# TYPE verifier_refunds_units_month gauge
verifier_refunds_units_month{asset="0xother",network="eip155:84532"} 0
verifier_refunds_units_month{asset="` + asset + `",network="eip155:84532"} 10000
`
	for i, fault := range []error{nil, nil, errors.New("the ledger is away")} {
		if books.fault = fault; fault != nil {
			now = now.Add(time.Minute)
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Errorf("scrape %d: %v", i, err)
		}
	}
	if books.reads != 2 {
		t.Errorf("three scrapes, one of them a minute later, read the books %d times", books.reads)
	}
}

// A database that is slow from the start is not read at each scrape either.
func TestMetrics_BooksThatWereNeverReadAreReadOnceAMinute(t *testing.T) {
	registry, books, now := prometheus.NewRegistry(), &summed{fault: errors.New("the ledger is away")}, start
	err := httpapi.RegisterBooks(registry, paymenttest.Terms(network), books, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 || books.reads != 1 {
			t.Errorf("%d metrics, %v, after %d reads", n, err, books.reads)
		}
	}
	books.fault, now = nil, now.Add(time.Minute)
	if n, err := testutil.GatherAndCount(registry); err != nil || n == 0 || books.reads != 2 {
		t.Errorf("a minute later: %d metrics, %v, after %d reads", n, err, books.reads)
	}
}

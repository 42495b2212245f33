package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestPriced_WhoOpensAPaidPathReadsHowToBuy(t *testing.T) {
	w := open(t, nil)
	for _, path := range []string{base, alias, transfers} {
		r := w.do(http.MethodGet, path, "")
		r.wantFailure(http.StatusMethodNotAllowed, "method_not_allowed")
		var got map[string]any
		w.must(json.Unmarshal(r.body, &got))
		if got["method"] != "POST" || got["priceUSD"] != "0.01" || got["documentation"] != publicURL+"/llms.txt" || got["interface"] != publicURL+"/openapi.json" {
			t.Errorf("%s", r.body)
		}
		if !strings.Contains(r.header.Get("Link"), `</openapi.json>; rel="service-desc"`) || r.header.Get("Allow") != "OPTIONS, POST" {
			t.Errorf("%v", r.header)
		}
		r = w.do(http.MethodGet, path, "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		if r.status != http.StatusMethodNotAllowed || !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") ||
			!strings.Contains(string(r.body), "0.01 USD") || !strings.Contains(string(r.body), publicURL+"/v1/check") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

func TestHealth_ReportsWhetherTheServiceIsReady(t *testing.T) {
	w := open(t, nil)
	r := w.do(http.MethodGet, "/health", "")
	if r.status != http.StatusOK || string(r.body) != `{"status":"ok"}` {
		t.Errorf("got %d %s", r.status, r.body)
	}
	w.sick = errors.New("the disk with the secret name is gone")
	r = w.do(http.MethodGet, "/health", "")
	r.wantFailure(http.StatusServiceUnavailable, "not_ready")
	if strings.Contains(string(r.body), "secret") {
		t.Errorf("the answer reveals %s", r.body)
	}
	if head := w.do(http.MethodHead, "/health", ""); head.status != r.status || head.header.Get("Content-Length") != strconv.Itoa(len(r.body)) {
		t.Errorf("HEAD: %d %v; GET has %d bytes", head.status, head.header, len(r.body))
	}
}

func TestKeys_DocumentIsServedAndCached(t *testing.T) {
	w := open(t, nil)
	const path = "/.well-known/receipt-signing-key.json"
	r := w.do(http.MethodGet, path, "")
	doc, err := receipt.ParseKeyDocument(r.body)
	w.must(err)
	if doc.KeyID != w.key.ID() || doc.Chain != "eip155:8453" || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("document is %s", r.body)
	}
	etag, length := r.header.Get("ETag"), len(r.body)
	if r.header.Get("Cache-Control") != "max-age=300" || etag == "" {
		t.Errorf("headers are %v", r.header)
	}
	for tag, want := range map[string]int{etag: 304, `"x", W/` + etag: 304, "*": 304, `"x"`: 200} {
		if r := w.do(http.MethodGet, path, "", "If-None-Match", tag); r.status != want || (want == 304) != (len(r.body) == 0) {
			t.Errorf("If-None-Match %s: got %d, want %d", tag, r.status, want)
		}
	}
	if r := w.do(http.MethodHead, path, ""); r.status != 200 || len(r.body) != 0 || r.header.Get("ETag") != etag || r.header.Get("Content-Length") != strconv.Itoa(length) {
		t.Errorf("HEAD: %d %v", r.status, r.header)
	}
}

func TestDiscovery_RegistriesFindThePaidAddresses(t *testing.T) {
	w := open(t, nil)
	r := w.do(http.MethodGet, "/.well-known/x402", "")
	var paths []string
	for _, path := range []string{base, alias, transfers, transfersAlias, batchPath} {
		paths = append(paths, `"`+publicURL+path+`"`)
	}
	if want := `{"chains":[{"name":"base","id":"eip155:8453"}],"mcp":"` + publicURL + `/mcp","resources":[` + strings.Join(paths, ",") + `],"version":1}`; string(r.body) != want {
		t.Errorf("got %s, want %s", r.body, want)
	}
	text := string(w.do(http.MethodGet, "/llms.txt", "").body)
	for _, want := range []string{publicURL + base, publicURL + transfersAlias, "minAmount", "0.01 USD", "transactionHash", "PAYMENT-REQUIRED", "`payment`", "/openapi.json", publicURL + "/mcp", publicURL + batchPath} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in llms.txt:\n%s", want, text)
		}
	}
}

func TestDiscovery_MCPEntryNamesTheToolsAddress(t *testing.T) {
	text, err := os.ReadFile("../../api/server.json")
	if err != nil {
		t.Fatal(err)
	}
	var entry struct {
		Remotes []struct {
			Type, URL string
			Variables map[string]any
		}
	}
	var listed struct{ MCP string }
	w := open(t, nil)
	w.must(json.Unmarshal(text, &entry))
	w.must(json.Unmarshal(w.do(http.MethodGet, "/.well-known/x402", "").body, &listed))
	if len(entry.Remotes) != 1 {
		t.Fatalf("%+v", entry)
	}
	remote := entry.Remotes[0]
	for name := range remote.Variables {
		remote.URL = strings.ReplaceAll(remote.URL, "{"+name+"}", strings.TrimPrefix(publicURL, "https://"))
	}
	if remote.URL != listed.MCP || remote.Type != "streamable-http" {
		t.Errorf("got %+v, want %s", remote, listed.MCP)
	}
}

type operation struct {
	OperationID string         `json:"operationId"`
	Payment     map[string]any `json:"x-payment-info"`
	Security    []any          `json:"security"`
	Responses   map[string]struct {
		Content map[string]struct {
			Schema struct {
				AllOf []struct {
					Properties struct {
						Reason struct{ Enum []string }
					}
				}
			}
		}
	}
	RequestBody struct {
		Content map[string]struct{ Example json.RawMessage }
	}
}

// described reads /openapi.json.
func (w *world) described() (doc struct {
	OpenAPI string
	Info    map[string]any
	Servers []struct{ URL string }
	Paths   map[string]map[string]operation
},
) {
	w.Helper()
	w.must(json.Unmarshal(w.do(http.MethodGet, "/openapi.json", "").body, &doc))
	return doc
}

func TestOpenAPI_DescribesThisInstallation(t *testing.T) {
	w := open(t, nil)
	doc := w.described()
	if doc.OpenAPI != "3.1.0" || doc.Info["version"] != "0.1.0" || !strings.Contains(fmt.Sprint(doc.Info["x-guidance"]), publicURL+"/mcp") || doc.Servers[0].URL != publicURL {
		t.Errorf("document is %+v", doc)
	}
	license := map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"}
	contact := map[string]any{"name": "Pforte", "url": "https://github.com/pforte/pforte"}
	if diff := cmp.Diff([]any{license, contact}, []any{doc.Info["license"], doc.Info["contact"]}); diff != "" {
		t.Errorf("licence and contact: %s", diff)
	}
	ids := map[string]bool{}
	for _, path := range []string{base, alias, transfers, transfersAlias} {
		o := doc.Paths[path]["post"]
		want := map[string]any{
			"price":     map[string]any{"mode": "fixed", "currency": "USD", "amount": "0.01"},
			"protocols": []any{map[string]any{"x402": map[string]any{}}},
		}
		if diff := cmp.Diff(want, o.Payment); diff != "" || o.Security == nil || ids[o.OperationID] {
			t.Errorf("%s: %s %+v", path, diff, o)
		}
		ids[o.OperationID] = true
		w.do(http.MethodPost, path, string(o.RequestBody.Content["application/json"].Example)).wantFailure(http.StatusPaymentRequired, "payment_required")
	}
	many := doc.Paths[batchPath]["post"]
	want := map[string]any{"mode": "dynamic", "currency": "USD", "min": "0.01", "max": "0.25"}
	if diff := cmp.Diff(any(want), many.Payment["price"]); diff != "" || ids[many.OperationID] {
		t.Errorf("%s: %s %+v", batchPath, diff, many)
	}
	w.do(http.MethodPost, batchPath, string(many.RequestBody.Content["application/json"].Example)).wantFailure(http.StatusPaymentRequired, "payment_required")
	if len(doc.Paths) != 15 {
		t.Errorf("%d paths are described", len(doc.Paths))
	}
}

func TestOpenAPI_DescribesEveryStatusAndReason(t *testing.T) {
	for _, path := range []string{alias, transfersAlias, batchPath} {
		everyStatusAndReasonIsDescribed(t, open(t, nil), path)
	}
}

// A client that is made from the document finds the proof of finality. The envelope is described in words alone: as a
// second form of the answer it would take the receipt from the answer's type in such clients.
func TestOpenAPI_DescribesTheLinkOfAnAnswer(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Headers, Content map[string]any }
		}
	}
	w := open(t, nil)
	w.must(json.Unmarshal(w.do(http.MethodGet, "/openapi.json", "").body, &doc))
	for _, path := range []string{base, alias, transfers, transfersAlias} {
		sold := doc.Paths[path]["post"].Responses["200"]
		if sold.Headers["Link"] == nil || len(sold.Content) != 1 {
			t.Errorf("%s: headers %v, content %v", path, sold.Headers, sold.Content)
		}
	}
}

func everyStatusAndReasonIsDescribed(t *testing.T, w *world, path string) {
	t.Helper()
	responses := w.described().Paths[path]["post"].Responses
	var statuses []string
	for status := range responses {
		statuses = append(statuses, status)
	}
	slices.Sort(statuses)
	if diff := cmp.Diff([]string{"200", "400", "402", "422", "429", "503"}, statuses); diff != "" {
		t.Errorf("statuses (VERIFIER-9.4): %s", diff)
	}
	described := func(status int) []string {
		var reasons []string
		for _, part := range responses[fmt.Sprint(status)].Content["application/json"].Schema.AllOf {
			reasons = append(reasons, part.Properties.Reason.Enum...)
		}
		slices.Sort(reasons)
		return reasons
	}
	want := map[int][]string{
		400: {"invalid_request", "payment_identifier_conflict"},
		402: {"payment_already_used", "payment_invalid", "payment_refused", "payment_required", "settlement_refused"},
		429: {"too_many_failed_settlements"},
		503: {
			"facilitator_limit", "facilitator_unavailable", "internal_error", "ledger_unavailable", "payment_in_progress",
			"request_canceled", "settlement_pending", "too_many_unpaid_attempts",
		},
	}
	for _, fault := range append(chain.Faults(), verification.ErrExpectationMismatch, verification.ErrInsufficientConfirmations, verification.ErrStatusUnavailable, verification.ErrTooLarge) {
		want[422] = append(want[422], fault.Code)
	}
	for status, reasons := range want {
		slices.Sort(reasons)
		if diff := cmp.Diff(reasons, described(status)); diff != "" {
			t.Errorf("%d (-answered +described):\n%s", status, diff)
		}
	}
}

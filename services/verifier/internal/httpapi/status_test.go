package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// ethereum is another recording, and the name of its chain.
const ethereum = "ethereum-18000000"

const unknownTx = "0x00000000000000000000000000000000000000000000000000000000000000ff"

func (w *world) status(chain, hash string) string {
	w.Helper()
	r := w.do(http.MethodGet, "/v1/status/"+chain+"/"+hash, "")
	if r.status != http.StatusOK || r.header.Get("Cache-Control") != "no-store" {
		w.Fatalf("%d %s", r.status, r.body)
	}
	return string(r.body)
}

func TestStatus_TellsHowFarATransactionIs(t *testing.T) {
	w := open(t, nil)
	w.node.SetHeads(2000090, 1999970)
	w.reopen()
	want := `{"status":"included","block":"2000000","finalInSeconds":60}`
	if got := w.status("base", recordedTx); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	w.node.SetHeads(2000120, 2000000)
	w.reopen()
	want = `{"status":"final","block":"2000000"}`
	if got := w.status("base", recordedTx); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := w.status("chain", "0x"+strings.ToUpper(recordedTx[2:])); got != want {
		t.Errorf("%s", got)
	}
}

func TestStatus_NamesTheChainThatKnowsTheTransaction(t *testing.T) {
	w := open(t, nil)
	w.more = []string{ethereum}
	w.reopen()
	began := time.Now()
	if got, want := w.status(ethereum, recordedTx), `{"status":"unknown","knownOn":"base"}`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got, want := w.status("base", unknownTx), `{"status":"unknown"}`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got, want := w.status("chain", recordedTx), `{"status":"final","block":"2000000"}`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestStatus_AChainThatIsAwayKnowsNothing, and keeps the others from no answer.
func TestStatus_AChainThatIsAwayKnowsNothing(t *testing.T) {
	w := open(t, nil)
	w.more = []string{ethereum}
	w.progress = func(context.Context, chain.Hash, func() error) (chain.Progress, error) {
		return chain.Progress{}, chain.ErrUnavailable
	}
	w.reopen()
	if got, want := w.status(ethereum, unknownTx), `{"status":"unknown"}`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestStatus_ABadQuestionIsExplained(t *testing.T) {
	w := open(t, nil)
	r := w.do(http.MethodGet, "/v1/status/op/"+recordedTx, "")
	if f := r.wantFailure(http.StatusNotFound, "unknown_chain"); !strings.HasSuffix(f.Error, "it has: base") {
		t.Errorf("%s", r.body)
	}
	r = w.do(http.MethodGet, "/v1/status/base/0x12", "")
	if f := r.wantFailure(http.StatusBadRequest, "invalid_request"); f.Field != "transactionHash" {
		t.Errorf("%s", r.body)
	}
}

// TestStatus_StrangersCostNodesLittle: who asks about ever new transactions is refused soon, and sales
// go on.
func TestStatus_StrangersCostNodesLittle(t *testing.T) {
	w := open(t, nil)
	const questions = 300
	refused := 0
	for i := range questions {
		hash := fmt.Sprintf("0x%064x", i+1)
		r := w.do(http.MethodGet, "/v1/status/base/"+hash, "")
		if r.status == http.StatusTooManyRequests {
			r.wantFailure(http.StatusTooManyRequests, "too_many_lookups")
			refused++
		}
	}
	if asked := w.node.Calls("eth_getTransactionByHash"); asked > 60 || asked+refused != questions {
		t.Errorf("%d lookups, %d refused, of %d", asked, refused, questions)
	}
	if r := w.buy("1"); r.status != http.StatusOK {
		t.Errorf("a sale meanwhile: %d %s", r.status, r.body)
	}
}

// Where the nodes of a chain do not know a transaction, those of all other chains are asked.
func TestStatus_AQuestionCountsOnceHoweverManyChainsAreAsked(t *testing.T) {
	w := open(t, nil)
	w.more = []string{ethereum, "ethereum-22119617", "eip3009-devnet"}
	w.reopen()
	for i := range 15 { // what one network may ask at once
		if got := w.status("base", fmt.Sprintf("0x%064x", i+1)); got != `{"status":"unknown"}` {
			t.Errorf("%d: %s", i, got)
		}
	}
	r := w.do(http.MethodGet, "/v1/status/base/"+fmt.Sprintf("0x%064x", 16), "")
	r.wantFailure(http.StatusTooManyRequests, "too_many_lookups")
}

// TestStatus_OneNetworkKeepsNoOtherOut: all of a network's addresses together leave others something.
func TestStatus_OneNetworkKeepsNoOtherOut(t *testing.T) {
	for name, address := range map[string]string{"IPv6": "[2001:db8:1:%x::1]:1", "IPv4": "192.0.2.%d:1"} {
		t.Run(name, func(t *testing.T) {
			w := open(t, nil)
			hashes := 0
			ask := func(address string) int {
				hashes++
				request := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/v1/status/base/0x%064x", hashes), nil)
				request.RemoteAddr = address
				recorder := httptest.NewRecorder()
				w.handler.ServeHTTP(recorder, request)
				return recorder.Code
			}
			for i := range 200 {
				ask(fmt.Sprintf(address, i))
			}
			if got := ask("203.0.113.1:1"); got != http.StatusOK {
				t.Errorf("another network got %d", got)
			}
		})
	}
}

func TestStatus_IsAToolToo(t *testing.T) {
	w := open(t, nil)
	for arguments, want := range map[string]string{
		`{"transactionHash":"` + recordedTx + `"}`:                `{"status":"final","block":"2000000"}`,
		`{"transactionHash":"` + recordedTx + `","chain":"base"}`: `{"status":"final","block":"2000000"}`,
		`{"transactionHash":"` + unknownTx + `"}`:                 `{"status":"unknown"}`,
	} {
		got := w.call("transaction_status", arguments).result()
		if got.IsError || string(got.StructuredContent) != want {
			t.Errorf("%s: %s", arguments, got.StructuredContent)
		}
	}
	for _, arguments := range []string{`{}`, `{"transactionHash":"0x1"}`, `{"transactionHash":"` + recordedTx + `","chain":"op"}`} {
		if got := w.call("transaction_status", arguments).result(); !got.IsError {
			t.Errorf("%s: %s", arguments, got.StructuredContent)
		}
	}
}

// A model reads a state again and again until a transaction is final: one of the two copies in the result.
func TestMCP_AStateIsSmall(t *testing.T) {
	w := open(t, nil)
	w.more = []string{ethereum}
	w.node.SetHeads(2000090, 1999970)
	w.reopen()
	for arguments, status := range map[string]string{
		`{"transactionHash":"` + recordedTx + `","chain":"base"}`:             "included",
		`{"transactionHash":"` + recordedTx + `","chain":"` + ethereum + `"}`: "unknown",
		`{"transactionHash":"` + unknownTx + `"}`:                             "unknown",
	} {
		got := w.call("transaction_status", arguments).result()
		if !strings.Contains(string(got.StructuredContent), `"status":"`+status+`"`) {
			t.Errorf("%s: %s", arguments, got.StructuredContent)
		}
		if n := tokensAtMost(got.Content[0].Text); n > 60 || len(got.Content) != 1 {
			t.Errorf("%d tokens: %+v", n, got.Content)
		}
	}
}

func TestRoute_OfAnUnknownChainNamesThoseThereAre(t *testing.T) {
	w := open(t, nil)
	for _, path := range []string{"/v1/verify/mars-transaction", "/v1/verify/mars-token-transfer", "/v1/status/mars/" + recordedTx} {
		method, reason := http.MethodPost, "not_found"
		if strings.HasPrefix(path, "/v1/status/") {
			method, reason = http.MethodGet, "unknown_chain"
		}
		if f := w.do(method, path, goodBody).wantFailure(http.StatusNotFound, reason); !strings.Contains(f.Error, "it has: base") {
			t.Errorf("%s: %s", path, f.Error)
		}
	}
	for _, path := range []string{"/v1/verify/", "/v1/verify/-transaction", "/v1/verify/a/b-transaction", "/v1/verify/nothing"} {
		w.do(http.MethodPost, path, goodBody).wantFailure(http.StatusNotFound, "not_found")
	}
}

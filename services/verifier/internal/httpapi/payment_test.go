package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/x402"
)

// What seller and buyer said of the recorded payment of the development chain.
const (
	paidResponse = `{"success":true,"transaction":"0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694","network":"eip155:84532","payer":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"}`
	paidSent     = `{"x402Version":2,"accepted":{"scheme":"exact","network":"eip155:84532","amount":"10000","asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e",` +
		`"payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","maxTimeoutSeconds":60},"payload":{"authorization":{"from":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",` +
		`"to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","value":"10000","validAfter":"0","validBefore":"1","nonce":"0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"}}}`
)

func TestPayment_IsProvenFromWhatBothSidesSaid(t *testing.T) {
	w := open(t, nil)
	w.more = []string{"eip3009-devnet"}
	w.reopen()
	about := `{"payment":{"response":` + paidResponse + `,"sent":` + paidSent + `}}`
	w.do(http.MethodPost, transfersAlias, about).wantFailure(http.StatusPaymentRequired, "payment_required")
	name, value := w.v2("1")
	r := w.do(http.MethodPost, transfersAlias, about, name, value) // of another chain than the path's first
	proven := r.wantTransfer(w)
	if proven.Amount != "10000" || proven.Authorization == nil || !strings.HasPrefix(proven.Authorization.Nonce, "0x5be8e543") {
		t.Errorf("%+v", proven)
	}
	written := `{"transactionHash":"0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694","transfer":{"token":"0x036cbd53842c5426634e7929541ec2318f3dcf7e",` +
		`"to":"0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc","amount":"10000","authorization":{"authorizer":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",` +
		`"nonce":"0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"}}}`
	own := "/v1/verify/eip3009-devnet-token-transfer"
	for _, same := range []string{about, written} { // one question: the same payment buys it
		if again := w.do(http.MethodPost, own, same, name, value); string(again.body) != string(r.body) {
			t.Errorf("%d %s", again.status, again.body)
		}
	}
	w.wantTransfers(1)
	if f := w.do(http.MethodPost, transfers, about).wantFailure(http.StatusBadRequest, "invalid_request"); f.Field != "payment.response" {
		t.Errorf("%+v", f)
	}
	unsettled := strings.Replace(about, "true", "false", 1)
	if f := w.do(http.MethodPost, transfersAlias, unsettled, name, value).wantFailure(http.StatusBadRequest, "invalid_request"); f.Field != "payment.response" {
		t.Errorf("%+v", f)
	}
	// Another authorization of the payer did not make this transfer.
	other := strings.Replace(about, "0x5be8e5", "0x5be8e6", 1)
	name, value = w.v2("2")
	w.do(http.MethodPost, transfersAlias, other, name, value).wantHint("expectation_mismatch", "authorization_not_used_for_it")
	if w.do(http.MethodPost, transfersAlias, other).header.Get(x402.HeaderPaymentRequired) == "" {
		t.Error("no challenge")
	}
	w.wantTransfers(1)
}

// As a tool it needs no chain: the payment says on which one it was made.
func TestPayment_IsProvenByTheToolToo(t *testing.T) {
	w := open(t, nil)
	w.more = []string{"eip3009-devnet"}
	w.reopen()
	about := `{"payment":{"response":` + paidResponse + `,"sent":` + paidSent + `}}`
	bought := w.rpc(message("verify_token_transfer", about, w.toolPayment("1"))).result()
	if bought.IsError || !strings.Contains(bought.Content[1].Text, "0x5be8e543") {
		t.Fatalf("%+v", bought)
	}
	w.wantTransfers(1)
	other := strings.Replace(about, "{", `{"chain":"base",`, 1)
	f := w.rpc(message("verify_token_transfer", other, w.toolPayment("2"))).wantTool(http.StatusBadRequest, "invalid_request")
	if f.Field != "payment.response" {
		t.Errorf("%+v", f)
	}
}

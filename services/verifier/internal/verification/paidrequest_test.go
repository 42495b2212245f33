package verification_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// What the two sides said of the recorded payment of the development chain.
const (
	paidResponse = `{"success":true,"transaction":"0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694","network":"eip155:84532","payer":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"}`
	paidSent     = `{"x402Version":2,"accepted":{"scheme":"exact","network":"eip155:84532","amount":"10000","asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e",` +
		`"payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","maxTimeoutSeconds":60},"payload":{"authorization":{"from":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",` +
		`"to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","value":"10000","validAfter":"0","validBefore":"1","nonce":"0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"}}}`
)

func header(object string) string {
	return `"` + base64.StdEncoding.EncodeToString([]byte(object)) + `"`
}

func TestPayment_IsAskedForAsWrittenOut(t *testing.T) {
	const want = `{"transactionHash":"0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694","expectations":{"minConfirmations":3},"transfer":{` +
		`"token":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","to":"0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc","amount":"10000",` +
		`"authorization":{"authorizer":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266","nonce":"0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"}}}`
	out, err := verification.ParseTransferRequest([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	for _, response := range []string{paidResponse, header(paidResponse)} {
		for _, sent := range []string{paidSent, header(paidSent)} {
			body, chain, err := verification.ExpandPayment([]byte(`{"payment":{"response":` + response + `,"sent":` + sent + `},"expectations":{"minConfirmations":3}}`))
			if err != nil || chain != "eip155:84532" {
				t.Fatalf("%q %v", chain, err)
			}
			got, err := verification.ParseTransferRequest(body)
			if err != nil || string(got.Canonical()) != string(out.Canonical()) {
				t.Errorf("%v\n%s\n%s", err, got.Canonical(), out.Canonical())
			}
		}
	}
	for _, other := range []string{want, `{`, ``, `{"payments":{}}`, `{"Payment":{}}`} {
		if body, chain, err := verification.ExpandPayment([]byte(other)); string(body) != other || chain != "" || err != nil {
			t.Errorf("%s: %s %q %v", other, body, chain, err)
		}
	}
}

func TestPayment_FaultsNameTheSide(t *testing.T) {
	change := func(text, from, to string) string {
		if !strings.Contains(text, from) {
			t.Fatalf("%s is not in %s", from, text)
		}
		return strings.Replace(text, from, to, 1)
	}
	response, sent := paidResponse, paidSent
	for body, at := range map[string]string{
		`{"payment":null}`: "/payment",
		`{"payment":7}`:    "/payment",
		`{"payment":{}}`:   "/payment/response",
		`{"payment":{"response":` + response + `}}`:                                                      "/payment/sent",
		`{"payment":{"response":"","sent":` + sent + `}}`:                                                "/payment/response",
		`{"payment":{"response":"e30","sent":` + sent + `}}`:                                             "/payment/response",
		`{"payment":{"response":[],"sent":` + sent + `}}`:                                                "/payment/response",
		`{"payment":{"response":{},"sent":` + sent + `}}`:                                                "/payment/response",
		`{"payment":{"response":` + header("{}x") + `,"sent":` + sent + `}}`:                             "/payment/response",
		`{"payment":{"response":` + change(response, "true", "false") + `,"sent":` + sent + `}}`:         "/payment/response",
		`{"payment":{"response":` + change(response, "84532", "8453") + `,"sent":` + sent + `}}`:         "/payment/response",
		`{"payment":{"response":` + change(response, "0xf39F", "0xf390") + `,"sent":` + sent + `}}`:      "/payment/response",
		`{"payment":{"response":` + change(response, "0x4281", "0x") + `,"sent":` + sent + `}}`:          "/payment/response",
		`{"payment":{"response":` + response + `,"sent":` + change(sent, "exact", "upto") + `}}`:         "/payment/sent",
		`{"payment":{"response":` + response + `,"sent":` + change(sent, `n":2`, `n":1`) + `}}`:          "/payment/sent",
		`{"payment":{"response":` + response + `,"sent":` + change(sent, "10000", "1") + `}}`:            "/payment/sent",
		`{"payment":{"response":` + response + `,"sent":` + change(sent, "0x3C44", "0x3C45") + `}}`:      "/payment/sent",
		`{"payment":{"response":` + response + `,"sent":` + change(sent, "0x5be8", "0x") + `}}`:          "/payment/sent",
		`{"payment":{"response":` + response + `,"sent":` + change(sent, "0x036C", "0x") + `}}`:          "/payment/sent",
		`{"payment":{"response":` + response + `,"sent":` + sent + `,"more":1}}`:                         "/payment/more",
		`{"payment":{"response":` + response + `,"sent":` + sent + `},"transactionHash":"0x"}`:           "/transactionHash",
		`{"payment":{"response":` + response + `,"sent":` + sent + `},"expectations":{"status":1}}`:      "/expectations/status",
		`{"payment":{"response":` + response + `,"response":` + response + `,"sent":` + sent + `}}`:      "",
		`{"payment":{"response":` + header(`{"success":true,"success":true}`) + `,"sent":` + sent + `}}`: "/payment/response",
	} {
		_, _, err := verification.ExpandPayment([]byte(body))
		if at == "" { // its own rules name the fault
			_, parseErr := verification.ParseTransferRequest([]byte(body))
			err = errors.Join(err, parseErr)
		}
		var fault *strictjson.Error
		if !errors.As(err, &fault) || at != "" && fault.Pointer != at {
			t.Errorf("%s: %v, want a fault at %s", body, err, at)
		}
	}
}

func FuzzPayment_IsAQuestionOrAFault(f *testing.F) {
	f.Add(header(paidResponse), header(paidSent))
	f.Add(paidResponse, paidSent)
	f.Add(`"e30="`, `{}`)
	f.Add(`null`, `[[[`)
	f.Fuzz(func(t *testing.T, response, sent string) {
		body := []byte(`{"payment":{"response":` + response + `,"sent":` + sent + `}}`)
		expanded, chain, err := verification.ExpandPayment(body)
		var fault *strictjson.Error
		switch {
		case err != nil && !errors.As(err, &fault):
			t.Fatalf("%v", err)
		case err == nil && chain != "":
			if _, err := verification.ParseTransferRequest(expanded); err != nil {
				t.Fatalf("%s: %v", expanded, err)
			}
		case err == nil && string(expanded) != string(body):
			t.Fatalf("%s", expanded)
		}
		_ = json.Valid(expanded)
	})
}

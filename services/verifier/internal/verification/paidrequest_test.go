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

// Receipts of the same payment that @x402/extensions 2.27.0 made (createReceiptEIP712, createReceiptJWS),
// and one of each that has no transaction, as it makes them by default.
const (
	receiptEIP712 = `{"format":"eip712","payload":{"version":1,"network":"eip155:84532","resourceUrl":"https://seller.example/data","payer":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",` +
		`"issuedAt":1795692452,"transaction":"0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694"},` +
		`"signature":"0x0d2fc5453e68d19d811783d59cd4c979697944ba172983de8a6e1f4848a8a9b627eefd662952635d064e5bd5fad7c42088badb640aa881039e290125d4531fa31c"}`
	receiptSigned = `{"format":"jws","signature":"eyJhbGciOiJFZERTQSIsImtpZCI6ImRpZDp3ZWI6c2VsbGVyLmV4YW1wbGUjMSJ9.eyJpc3N1ZWRBdCI6MTc5NTY5MjQ1MiwibmV0d29yayI6ImVpcDE1NTo4NDUzMiIsInBheWVyIjoiMHhmMzlGZDZlNTFhYWQ4OEY2RjRjZTZhQjg4MjcyNzljZmZGYjkyMjY2IiwicmVzb3VyY2VVcmwiOiJodHRwczovL3NlbGxlci5leGFtcGxlL2RhdGEiLCJ0cmFuc2FjdGlvbiI6IjB4NDI4MTdlZGJjYTNiMDQ1NjA5MmQzMDZjNjdhN2UyODFmMGJhYWIyZDk4N2Y3OWI5NWQ3YWFjMjYwNjRiNjY5NCIsInZlcnNpb24iOjF9.` +
		`pxpisN_KqOoCyHObRgXXAecLVNgTz7d8rXDykQWpWcHCkySfy9u1MiGnU47sn-M9MDp6XT7LGhOFbA2msG7WDg"}`
	privateEIP712 = `{"format":"eip712","payload":{"version":1,"network":"eip155:84532","resourceUrl":"https://seller.example/data","payer":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",` +
		`"issuedAt":1795692452,"transaction":""},"signature":"0x53b94b9f3b52965da99a30bf34aa3be712e7a767f65d622eb9637da3673260a144d945ec37f13a0483750bd73686218ea8b84898e8828c33ec95357af99717061c"}`
	privateSigned = `{"format":"jws","signature":"eyJhbGciOiJFZERTQSIsImtpZCI6ImRpZDp3ZWI6c2VsbGVyLmV4YW1wbGUjMSJ9.eyJpc3N1ZWRBdCI6MTc5NTY5MjQ1MiwibmV0d29yayI6ImVpcDE1NTo4NDUzMiIsInBheWVyIjoiMHhmMzlGZDZlNTFhYWQ4OEY2RjRjZTZhQjg4MjcyNzljZmZGYjkyMjY2IiwicmVzb3VyY2VVcmwiOiJodHRwczovL3NlbGxlci5leGFtcGxlL2RhdGEiLCJ2ZXJzaW9uIjoxfQ.` +
		`Jld1JZhMjgQtgrl7BMPr1n0eKxN7XUeSqrJGbonaXLuBswn_fZf-a5viUh6_ZID5jjQpKv3P8N_FFprgdDmyAA"}`
)

// receiptJWS is a receipt of a payload, in the format jws, with a signature that nobody made.
func receiptJWS(payload string) string {
	return `{"format":"jws","signature":"eyJhbGciOiJFZERTQSJ9.` + base64.RawURLEncoding.EncodeToString([]byte(payload)) + `.AA"}`
}

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
	for _, response := range []string{paidResponse, header(paidResponse), receiptEIP712, receiptSigned} {
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
		`{"payment":{"response":` + change(receiptEIP712, "eip712", "cose") + `,"sent":` + sent + `}}`:   "/payment/response",
		`{"payment":{"response":` + change(receiptEIP712, "0x4281", "0x") + `,"sent":` + sent + `}}`:     "/payment/response",
		`{"payment":{"response":` + change(receiptEIP712, "0xf39F", "0xf390") + `,"sent":` + sent + `}}`: "/payment/response",
		`{"payment":{"response":` + receiptJWS(`{"network":"eip155:84532"}`) + `,"sent":` + sent + `}}`:  "/payment/response",
		`{"payment":{"response":` + receiptJWS(`[]`) + `,"sent":` + sent + `}}`:                          "/payment/response",
		`{"payment":{"response":{"format":"jws","signature":"a.b"},"sent":` + sent + `}}`:                "/payment/response",
		`{"payment":{"response":{"format":"jws","signature":"a.%.c"},"sent":` + sent + `}}`:              "/payment/response",
		`{"payment":{"response":{"format":"eip712"},"sent":` + sent + `}}`:                               "/payment/response",
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

// Both are known names of this operation, and must not be called unknown.
func TestPayment_StandsInPlaceOfTransactionAndTransfer(t *testing.T) {
	for _, name := range []string{"transactionHash", "transfer"} {
		body := `{"payment":{"response":` + paidResponse + `,"sent":` + paidSent + `},"` + name + `":{}}`
		_, _, err := verification.ExpandPayment([]byte(body))
		if want := "/" + name + ": must not be given beside payment"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The extension leaves the transaction out unless the seller includes it, in JWS by its absence and
// in EIP-712 by "".
func TestPayment_ReceiptWithoutItsTransactionIsToldSo(t *testing.T) {
	for _, response := range []string{privateEIP712, privateSigned} {
		_, _, err := verification.ExpandPayment([]byte(`{"payment":{"response":` + response + `,"sent":` + paidSent + `}}`))
		if err == nil || !strings.Contains(err.Error(), "names no transaction") {
			t.Errorf("%s: %v", response, err)
		}
	}
}

func FuzzPayment_IsAQuestionOrAFault(f *testing.F) {
	f.Add(header(paidResponse), header(paidSent))
	f.Add(paidResponse, paidSent)
	f.Add(receiptEIP712, paidSent)
	f.Add(receiptSigned, header(paidSent))
	f.Add(receiptJWS(`{"transaction":7}`), paidSent)
	f.Add(`{"format":"eip712","payload":null}`, paidSent)
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

package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/x402"
)

// VERIFIER-2: the body is required and must conform.

func TestRequest_AMalformedBodyIs400AndNeverCharged(t *testing.T) {
	w := open(t, nil)
	hash := `"transactionHash":"` + recordedTx + `"`
	for name, c := range map[string]struct{ body, field string }{
		"no JSON":                        {"{", ""},
		"an array":                       {"[]", ""},
		"null":                           {"null", ""},
		"a string":                       {`"x"`, ""},
		"something after it":             {"{" + hash + "}{}", ""},
		"no hash":                        {`{"expectations":{}}`, "transactionHash"},
		"a null hash":                    {`{"transactionHash":null}`, "transactionHash"},
		"a number for a hash":            {`{"transactionHash":7}`, "transactionHash"},
		"a short hash":                   {`{"transactionHash":"0x12"}`, "transactionHash"},
		"a hash without 0x":              {`{"transactionHash":"` + recordedTx[2:] + `00"}`, "transactionHash"},
		"a hash that is no hexadecimal":  {`{"transactionHash":"0x` + strings.Repeat("z", 64) + `"}`, "transactionHash"},
		"a name in another case":         {`{"TransactionHash":"` + recordedTx + `"}`, "TransactionHash"},
		"a name twice":                   {"{" + hash + "," + hash + "}", "transactionHash"},
		"a name that is not known":       {"{" + hash + `,"more":1}`, "more"},
		"an expectation not known":       {"{" + hash + `,"expectations":{"more":1}}`, "expectations.more"},
		"null expectations":              {"{" + hash + `,"expectations":null}`, "expectations"},
		"another status":                 {"{" + hash + `,"expectations":{"status":"failed"}}`, "expectations.status"},
		"a short sender":                 {"{" + hash + `,"expectations":{"from":"0x12"}}`, "expectations.from"},
		"a recipient without 0x":         {"{" + hash + `,"expectations":{"to":"` + strings.Repeat("a", 42) + `"}}`, "expectations.to"},
		"a long selector":                {"{" + hash + `,"expectations":{"selector":"0x1234567890"}}`, "expectations.selector"},
		"no confirmations":               {"{" + hash + `,"expectations":{"minConfirmations":0}}`, "expectations.minConfirmations"},
		"too many confirmations":         {"{" + hash + `,"expectations":{"minConfirmations":100001}}`, "expectations.minConfirmations"},
		"half a confirmation":            {"{" + hash + `,"expectations":{"minConfirmations":1.5}}`, "expectations.minConfirmations"},
		"confirmations in a string":      {"{" + hash + `,"expectations":{"minConfirmations":"1"}}`, "expectations.minConfirmations"},
		"confirmations with an exponent": {"{" + hash + `,"expectations":{"minConfirmations":1e400}}`, "expectations.minConfirmations"},
		"more than 16 KB":                {"{" + hash + strings.Repeat(" ", 16<<10) + "}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			payment, value := w.v2("1")
			for _, header := range [][]string{{}, {payment, value}} {
				f := w.post(c.body, header...).wantFailure(http.StatusBadRequest, "invalid_request")
				if f.Field != c.field || *f.Retryable {
					t.Errorf("field is %q, want %q: %+v", f.Field, c.field, f)
				}
			}
		})
	}
	w.wantTransfers(0)
	if w.sim.Verifies != 0 {
		t.Error("the facilitator was called for a malformed request")
	}
}

func TestRequest_AnotherContentTypeIs400(t *testing.T) {
	w := open(t, nil)
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ";"} {
		w.post(goodBody, "Content-Type", contentType).wantFailure(http.StatusBadRequest, "invalid_request")
	}
	w.post(goodBody, "Content-Type", "Application/JSON; charset=utf-8").wantFailure(http.StatusPaymentRequired, "payment_required")
}

func TestRequest_EveryLimitOfTheContractIsAccepted(t *testing.T) {
	w := open(t, nil)
	upper := "0x" + strings.ToUpper(recordedTx[2:])
	for _, body := range []string{
		`{"transactionHash":"` + upper + `"}`,
		`{"transactionHash":"` + recordedTx + `","expectations":{}}`,
		`{"transactionHash":"` + recordedTx + `","expectations":{"minConfirmations":1}}`,
		`{"transactionHash":"` + recordedTx + `","expectations":{"minConfirmations":100000}}`,
		`{"expectations":{"selector":"0xABCDEF01","to":"0x` + strings.Repeat("Ab", 20) + `","from":"0x` + strings.Repeat("aB", 20) + `","status":"reverted"},"transactionHash":"` + recordedTx + `"}`,
	} {
		w.post(body).wantFailure(http.StatusPaymentRequired, "payment_required")
	}
}

// VERIFIER-3: the call is paid.

func TestChallenge_APriceEnquiryIs402(t *testing.T) {
	w := open(t, nil)
	for _, body := range []string{"", "{}", " {} \n", "  ", "{ }", "{\r\n\t}"} {
		w.post(body).wantFailure(http.StatusPaymentRequired, "payment_required")
	}
	w.post("", "Content-Type", "text/plain").wantFailure(http.StatusPaymentRequired, "payment_required")
	name, value := w.v2("1")
	w.post("", name, value).wantFailure(http.StatusBadRequest, "invalid_request") // paid: 400 before anything else
	w.post("{}", name, value).wantFailure(http.StatusBadRequest, "invalid_request")
}

func TestChallenge_AnUnpaidCallGetsBoth(t *testing.T) {
	w := open(t, nil)
	for _, path := range []string{base, alias} {
		r := w.do(http.MethodPost, path, goodBody)
		f := r.wantFailure(http.StatusPaymentRequired, "payment_required")
		if *f.Retryable {
			t.Error("the same call will not succeed")
		}
		c := r.challenge()
		if c.X402Version != 2 || c.Error != "Payment required" || c.Resource.URL != publicURL+path || c.Resource.MimeType != "application/json" || len(c.Accepts) != 1 {
			t.Errorf("challenge is %+v", c)
		}
		text, err := json.Marshal(c.Accepts[0])
		w.must(err)
		want := `{"scheme":"exact","network":"eip155:84532","amount":"10000","asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e",` +
			`"payTo":"0x00000000000000000000000000000000000050A5","maxTimeoutSeconds":60,"extra":{"name":"USDC","version":"2"}}`
		if string(text) != want {
			t.Errorf("v2 accepts\n%s, want\n%s", text, want)
		}
		var v1 struct {
			X402Version int              `json:"x402Version"`
			Accepts     []map[string]any `json:"accepts"`
		}
		w.must(json.Unmarshal(r.body, &v1))
		if v1.X402Version != 1 || len(v1.Accepts) != 1 {
			t.Fatalf("v1 body is %s", r.body)
		}
		if a := v1.Accepts[0]; a["network"] != "base-sepolia" || a["maxAmountRequired"] != "10000" || a["resource"] != publicURL+path || a["description"] == "" || a["mimeType"] != "application/json" {
			t.Errorf("v1 accepts %v", a)
		}
		if _, has := v1.Accepts[0]["outputSchema"]; has {
			t.Error("outputSchema breaks strict clients when it is null")
		}
	}
}

func TestChallenge_KeepsItsBudgetsAndAlphabet(t *testing.T) {
	w := open(t, nil)
	r := w.post("")
	value := r.header.Get(x402.HeaderPaymentRequired)
	if len(value) > 4096 {
		t.Errorf("the challenge has %d bytes", len(value))
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(value); err != nil {
		t.Error(err)
	}
	if d := r.challenge().Resource.Description; d == "" || len(d) > 500 {
		t.Errorf("description %q", d)
	}
	for _, name := range []string{"bazaar", "payment-identifier"} {
		if r.challenge().Extensions[name] == nil {
			t.Errorf("the extension %s is missing", name)
		}
	}
}

func TestChallenge_FitsIntoOneBuffer(t *testing.T) {
	w := open(t, nil)
	connection, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	w.must(err)
	defer func() { _ = connection.Close() }()
	_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", base)
	w.must(err)
	whole, err := io.ReadAll(connection)
	w.must(err)
	if len(whole) > 4096 || !strings.HasPrefix(string(whole), "HTTP/1.1 402") {
		t.Errorf("the answer has %d bytes:\n%s", len(whole), whole)
	}
}

func TestChallenge_AdvertisedExampleReaches402(t *testing.T) {
	w := open(t, nil)
	var bazaar struct {
		Info struct {
			Input struct {
				Type, Method, BodyType string
				Body                   json.RawMessage
			}
		}
		Schema map[string]any
	}
	w.must(json.Unmarshal(w.post("").challenge().Extensions["bazaar"], &bazaar))
	in := bazaar.Info.Input
	if in.Type != "http" || in.Method != "POST" || in.BodyType != "json" || bazaar.Schema["type"] != "object" {
		t.Errorf("bazaar is %+v", bazaar)
	}
	w.post(string(in.Body)).wantFailure(http.StatusPaymentRequired, "payment_required")
}

func TestChallenge_ResourceIsThePublicAddress(t *testing.T) {
	w := open(t, nil)
	r := w.post("", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "gopher", "Forwarded", "host=evil.example")
	if url := r.challenge().Resource.URL; url != publicURL+base {
		t.Errorf("resource is %s", url)
	}
}

// Other methods and paths.

func TestRequest_OtherMethodsAre405WithAllow(t *testing.T) {
	w := open(t, nil)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{base, alias} {
			r := w.do(method, path, "", "X-HTTP-Method-Override", "POST")
			r.wantFailure(http.StatusMethodNotAllowed, "method_not_allowed")
			if allow := r.header.Get("Allow"); !strings.Contains(allow, "POST") || strings.Contains(allow, "GET") {
				t.Errorf("%s: Allow is %q", method, allow)
			}
		}
	}
	r := w.do(http.MethodPost, "/health", "")
	r.wantFailure(http.StatusMethodNotAllowed, "method_not_allowed")
	if allow := r.header.Get("Allow"); !strings.Contains(allow, "GET") {
		t.Errorf("Allow is %q", allow)
	}
	if r := w.do(http.MethodHead, base, ""); r.status != http.StatusMethodNotAllowed || len(r.body) != 0 {
		t.Errorf("HEAD: %d %q", r.status, r.body)
	}
}

func TestRequest_UnknownPathsAre404(t *testing.T) {
	w := open(t, nil)
	for _, path := range []string{"/", "/v1", "/v1/verify/ethereum-transaction", base + "/", "/v1/verify/", "/metrics", "/internal/x", "/V1/verify/base-transaction"} {
		w.do(http.MethodPost, path, goodBody).wantFailure(http.StatusNotFound, "not_found")
	}
}

func TestRequest_BrowsersMayCallFromAnyOrigin(t *testing.T) {
	w := open(t, nil)
	r := w.do(http.MethodOptions, base, "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "content-type, payment-signature, access-control-expose-headers")
	if r.status != http.StatusNoContent || r.header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(r.header.Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("preflight: %d %v", r.status, r.header)
	}
	for _, name := range []string{"Content-Type", "PAYMENT-SIGNATURE", "X-PAYMENT", "Access-Control-Expose-Headers"} {
		if !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("%s may not be sent", name)
		}
	}
	for _, r := range []reply{w.post(""), w.buy("1"), w.do(http.MethodGet, "/nowhere", "")} {
		if r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%d: %v", r.status, r.header)
		}
		for _, name := range []string{
			"PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "Retry-After", "Link",
		} {
			if !strings.Contains(r.header.Get("Access-Control-Expose-Headers"), name) {
				t.Errorf("%d: %s may not be read", r.status, name)
			}
		}
	}
}

func TestRequest_EveryAnswerCarriesItsID(t *testing.T) {
	w := open(t, nil)
	if id := w.post("", "X-Request-Id", "my-id_1.2").header.Get("X-Request-Id"); id != "my-id_1.2" {
		t.Errorf("id is %q", id)
	}
	for _, bad := range []string{"a b", strings.Repeat("a", 65), `"x"`} {
		if id := w.post("", "X-Request-Id", bad).header.Get("X-Request-Id"); id == bad || id == "" {
			t.Errorf("%q became %q", bad, id)
		}
	}
	if r := w.do(http.MethodGet, "/health", ""); r.header.Get("X-Request-Id") == "" || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers are %v", r.header)
	}
}

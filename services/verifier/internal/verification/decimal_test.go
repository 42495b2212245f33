package verification_test

import (
	"errors"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

func TestAmountDecimal_BecomesAtomicUnitsOfAKnownToken(t *testing.T) {
	const (
		chain = "eip155:8453"
		token = `"token":"0xD9AAEC86B65D86F6A7B5B1B0C42FFA531710B6CA"`
	)
	for body, want := range map[string]string{
		`{"transfer":{` + token + `,"amountDecimal":"706.601842"}}`:  `{"transfer":{"amount":"706601842",` + token + `}}`,
		`{"transfer":{"amountDecimal":"1",` + token + `},"chain":1}`: `{"chain":1,"transfer":{"amount":"1000000",` + token + `}}`,
		`{"transfer":{` + token + `,"amount":"7"}}`:                  `{"transfer":{` + token + `,"amount":"7"}}`,
		`{"amountDecimal":"1"}`:                                      `{"amountDecimal":"1"}`, // refused when it is read
		`{"transfer":7,"amountDecimal":"1"}`:                         `{"transfer":7,"amountDecimal":"1"}`,
	} {
		if got, err := verification.AtomicAmount(chain, []byte(body)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", body, got, err, want)
		}
	}
	for name, body := range map[string]string{
		"beside amount":     `{"transfer":{` + token + `,"amountDecimal":"1","amount":"1000000"}}`,
		"beside minAmount":  `{"transfer":{` + token + `,"amountDecimal":"1","minAmount":"1"}}`,
		"not known":         `{"transfer":{"token":"0x0000000000000000000000000000000000000001","amountDecimal":"1"}}`,
		"the native coin":   `{"transfer":{"token":"native","amountDecimal":"1"}}`,
		"without token":     `{"transfer":{"amountDecimal":"1"}}`,
		"too many decimals": `{"transfer":{` + token + `,"amountDecimal":"0.0000001"}}`,
		"a number":          `{"transfer":{` + token + `,"amountDecimal":1}}`,
		"null":              `{"transfer":{` + token + `,"amountDecimal":null}}`,
	} {
		var field *strictjson.Error
		if got, err := verification.AtomicAmount(chain, []byte(body)); !errors.As(err, &field) || field.Pointer != "/transfer/amountDecimal" {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	if _, err := verification.AtomicAmount(chain, []byte(`{"transfer":{"amountDecimal":"1","amountDecimal":"2"}}`)); err == nil {
		t.Error("a member twice is read")
	}
}

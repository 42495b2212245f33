package httpapi

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
	openapi "github.com/pforte/pforte/services/verifier/api"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// exampleBody is a request that reaches the 402: registries replay it.
const exampleBody = `{"transactionHash":"0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb","expectations":{"status":"success"}}`

// extensionBazaar describes to registries what the paid call takes and returns (x402
// extension bazaar). The schema is that of api/openapi.json without its texts: the
// whole answer to an unpaid call should fit into one buffer of net/http, 4 KB. It
// allows no body that is answered 400, because registries post what they make from it.
const extensionBazaar = `{"info":{"input":{"type":"http","method":"POST","bodyType":"json","body":` + exampleBody + `},` +
	`"output":{"type":"json","example":{"receipt":{"verdict":"verified"},"signature":{"algorithm":"Ed25519"}}}},` +
	`"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` +
	`"input":{"type":"object","properties":{"type":{"type":"string","const":"http"},"method":{"type":"string","enum":["POST"]},` +
	`"bodyType":{"type":"string","enum":["json"]},"body":{"type":"object","required":["transactionHash"],"additionalProperties":false,"properties":{` +
	`"transactionHash":{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"},` +
	`"expectations":{"type":"object","additionalProperties":false,"properties":{"status":{"type":"string","enum":["success","reverted"]},` +
	`"from":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},"to":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},` +
	`"selector":{"type":"string","pattern":"^0x[0-9a-fA-F]{8}$"},` +
	`"minConfirmations":{"type":"integer","minimum":1,"maximum":100000}}}}}},` +
	`"required":["type","method","bodyType","body"],"additionalProperties":false},` +
	`"output":{"type":"object","properties":{"type":{"type":"string"},"example":{"type":"object"}},"required":["type"]}},"required":["input"]}}`

// offer is what one path of a chain sells.
func (a *api) offer(chain Chain, path string) payment.Offer {
	return payment.Offer{
		Terms: a.Terms,
		Resource: x402.Resource{
			URL:         a.PublicURL + path,
			Description: "Signed, offline-checkable evidence about one finalized transaction on " + chain.Name + ", judged against your expectations.",
			MimeType:    receipt.MediaTypeJSON, ServiceName: "Pforte", Tags: []string{"blockchain", "verification", "evidence", "receipt"},
		},
		Extensions: payment.Extensions{
			"bazaar":                    json.RawMessage(extensionBazaar),
			payment.ExtensionIdentifier: payment.IdentifierExtension(),
		},
	}
}

// usd returns the price in dollars. The token must count in millionths, as every
// known one does.
func (a *api) usd() string {
	amount, ok := new(big.Rat).SetString(a.Terms.Amount)
	if !ok {
		return a.Terms.Amount
	}
	text := strings.TrimRight(amount.Quo(amount, big.NewRat(1_000_000, 1)).FloatString(6), "0")
	if whole, cents, _ := strings.Cut(text, "."); len(cents) < 2 {
		return whole + "." + cents + strings.Repeat("0", 2-len(cents))
	}
	return text
}

// openapi returns the description of this installation: its address, its price and
// the paths of its chains.
func (a *api) openapi() ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(openapi.Document, &doc); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	paths, _ := doc["paths"].(map[string]any)
	item, ok := paths[firstPath].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the OpenAPI document has no %s", firstPath)
	}
	delete(paths, firstPath)
	for _, chain := range a.Chains {
		for _, path := range a.paths(chain) {
			paths[path] = a.pathItem(item, chain, path)
		}
	}
	doc["servers"] = []any{map[string]any{"url": a.PublicURL}}
	return jsonBody(doc)
}

// pathItem is the template's operation for one path, under a name of its own.
func (a *api) pathItem(template map[string]any, chain Chain, path string) map[string]any {
	post := map[string]any{}
	operation, _ := template["post"].(map[string]any)
	for name, value := range operation {
		post[name] = value
	}
	id := "verify_" + strings.ReplaceAll(chain.Name, "-", "_")
	if path == firstPath {
		id = "verify"
	}
	post["operationId"] = id
	post["x-payment-info"] = map[string]any{
		"price":     map[string]any{"mode": "fixed", "currency": "USD", "amount": a.usd()},
		"protocols": []any{map[string]any{"x402": map[string]any{}}},
	}
	return map[string]any{"post": post}
}

// llms is the short text for language models that want to use the service.
func (a *api) llms() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Pforte verifier\n\n")
	fmt.Fprintf(&b, "> Signed, offline-checkable evidence about one finalized transaction on a public chain. %s USD a call, paid by x402; no account, no key.\n\n", a.usd())
	fmt.Fprintf(&b, "Send `POST` with `Content-Type: application/json` to one of:\n\n")
	for _, url := range a.urls() {
		fmt.Fprintf(&b, "- %s\n", url)
	}
	fmt.Fprintf(&b, "\nBody: `%s`. `expectations` is optional, and so is each of its members: status (success or reverted), from, to, selector, minConfirmations (1 to 100000).\n\n", exampleBody)
	b.WriteString("Without a payment the answer is 402: the x402 version 2 challenge is in the PAYMENT-REQUIRED header, version 1 in the body. " +
		"Pay with any x402 client, scheme exact. 200 means that everything you expected holds; nothing is charged for any other answer. " +
		"422 says in `reason` and `checks` what does not hold, or that the transaction is not final yet. " +
		"After 503 send the same request with the same payment again; do not pay anew.\n\n")
	fmt.Fprintf(&b, "- Interface: %[1]s/openapi.json\n- Keys that sign receipts: %[1]s/.well-known/receipt-signing-key.json\n", a.PublicURL)
	return []byte(b.String())
}

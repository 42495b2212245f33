package httpapi

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/x402"
	openapi "github.com/pforte/pforte/services/verifier/api"
)

// samplePath is the path of an example of what a call sells, which is free.
const samplePath = "/v1/sample"

// pages returns the handlers of the free documents that never change while the process runs, by path.
func (a *api) pages() (map[string]echo.HandlerFunc, error) {
	var urls []string
	for _, route := range a.paid {
		urls = append(urls, route.offer.Resource.URL)
	}
	urls = append(urls, a.PublicURL+batchPath)
	keys, err := json.Marshal(a.Keys)
	if err != nil {
		return nil, fmt.Errorf("encode the key document: %w", err)
	}
	var chains []namedChain
	for _, chain := range a.Chains {
		chains = append(chains, chain.named())
	}
	listed := map[string]any{"version": 1, "resources": urls, "chains": chains}
	if a.MCP != nil {
		listed["mcp"] = a.PublicURL + mcpPath // no resource: registries probe those for a 402
	}
	resources, err := json.Marshal(listed)
	if err != nil {
		return nil, fmt.Errorf("encode the list of resources: %w", err)
	}
	description, err := a.openapi()
	if err != nil {
		return nil, err
	}
	pages := map[string]echo.HandlerFunc{}
	for path, body := range map[string][]byte{
		"/.well-known/receipt-signing-key.json": keys,
		"/.well-known/x402":                     resources,
		"/openapi.json":                         description,
		"/llms.txt":                             a.llms(urls),
		samplePath:                              openapi.Sample,
	} {
		mediaType := receipt.MediaTypeJSON
		if path == "/llms.txt" {
			mediaType = textPlain
		}
		pages[path] = document(mediaType, body, gzip.BestCompression)
	}
	return pages, nil
}

// page is [tagged] for a document that clients may keep for five minutes.
func page(mediaType string, body []byte) echo.HandlerFunc {
	return tagged("max-age=300", mediaType, body)
}

// tagged returns a handler that answers with a document and its ETag, or that the client has it (304).
func tagged(cache, mediaType string, body []byte) echo.HandlerFunc {
	sum := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	found := served(cache, mediaType, body)
	found.header.Set("Etag", etag)
	return func(c echo.Context) error {
		if matches(c.Request().Header.Values("If-None-Match"), etag) {
			maps.Copy(c.Response().Header(), found.header)
			return c.NoContent(http.StatusNotModified)
		}
		return found.write(c)
	}
}

// matches reports whether one of the tags is etag, compared weakly (RFC 9110, section 13.1.2), or *.
func matches(tags []string, etag string) bool {
	for _, tag := range strings.Split(strings.Join(tags, ","), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// usd returns the price of one question in dollars.
func (a *api) usd() string { return dollars(a.Terms.Amount) }

// dollars returns an amount of atomic units in dollars, for a token with six decimals.
func dollars(units string) string {
	amount, ok := new(big.Int).SetString(units, 10)
	if !ok {
		return units
	}
	return x402.Dollars(amount)
}

// pathTemplate is what the OpenAPI document says of the path of a kind.
type pathTemplate struct{ get, post map[string]any }

// openapi returns the description of this installation: its address, its price and
// the paths of its chains, each with an operationId of its own.
func (a *api) openapi() ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(openapi.Document, &doc); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	paths, _ := doc["paths"].(map[string]any)
	templates := map[string]pathTemplate{}
	for _, kind := range kinds {
		template, _ := paths[kind.firstPath].(map[string]any)
		post, ok := template["post"].(map[string]any)
		get, isPriced := template["get"].(map[string]any)
		if !ok || !isPriced {
			return nil, fmt.Errorf("the OpenAPI document has no %s", kind.firstPath)
		}
		templates[kind.firstPath] = pathTemplate{get, post}
		delete(paths, kind.firstPath)
	}
	for _, route := range a.paid {
		kind := route.operation.kind
		template := templates[kind.firstPath]
		get, post := maps.Clone(template.get), maps.Clone(template.post)
		post["operationId"] = kind.operationID
		if route.path != kind.firstPath {
			post["operationId"] = kind.operationID + "_" + strings.ReplaceAll(route.operation.chain.Name, "-", "_")
		}
		post["x-payment-info"] = map[string]any{
			"price":     map[string]any{"mode": "fixed", "currency": "USD", "amount": a.usd()},
			"protocols": []any{map[string]any{"x402": map[string]any{}}},
		}
		get["operationId"] = fmt.Sprint("price_", post["operationId"])
		paths[route.path] = map[string]any{"get": get, "post": post}
	}
	many, _ := paths[batchPath].(map[string]any)
	post, ok := many["post"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the OpenAPI document has no %s", batchPath)
	}
	post["x-payment-info"] = map[string]any{
		"price": map[string]any{
			"mode": "dynamic", "currency": "USD", "min": a.usd(), "max": dollars(a.priceOf(maxQuestions)),
		},
		"protocols": []any{map[string]any{"x402": map[string]any{}}},
	}
	components, _ := doc["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	if a.Receipts == nil {
		delete(schemas, "ReceiptLog")
		maps.DeleteFunc(paths, func(path string, _ any) bool {
			return path == receiptlog.DirectoryPath || strings.HasPrefix(path, "/v1/log/")
		})
	}
	if !a.offersFinality() {
		delete(schemas, "FinalityDocument")
		maps.DeleteFunc(paths, func(path string, _ any) bool { return strings.HasPrefix(path, finalityPath) })
	}
	if a.MCP == nil {
		delete(paths, mcpPath)
	}
	if info, ok := doc["info"].(map[string]any); ok && a.MCP != nil {
		info["x-guidance"] = fmt.Sprint(info["x-guidance"], " Agents find the same operations as tools at ",
			a.PublicURL, mcpPath, " (Model Context Protocol, streamable HTTP).")
	}
	doc["servers"] = []any{map[string]any{"url": a.PublicURL}}
	return json.Marshal(doc)
}

// llms returns the short text for language models that want to use the service.
func (a *api) llms(urls []string) []byte {
	const text = `# Pforte verifier

> Signed, offline-checkable evidence about one finalized transaction on a public chain. ` +
		`%[1]s USD a call, paid by x402; no account, no key.

Send ` + "`POST` with `Content-Type: application/json`" + ` to one of:

%[2]s
About a transaction (paths that end in -transaction): ` + "`%[3]s`. `expectations`" + ` is optional, ` +
		`and so is each of its members: status (success or reverted), from, to, selector, ` +
		`minConfirmations (1 to 100000).

About a payment (paths that end in token-transfer): ` + "`%[5]s`. `token`" + ` is the contract's address, ` +
		`or native for the chain's own coin. Either amount or minAmount, in atomic units. ` +
		`Optional: from, logPosition (place among the transaction's own logs), ` +
		`authorization {authorizer, nonce} (the x402 payment that it must be), expectations.minConfirmations. ` +
		"A 422 has a `hint` and lists the token's transfers under `found`" + `. ` +
		"About an x402 payment, of anyone: `payment`, with `response` (the PAYMENT-RESPONSE) and `sent` (the " +
		"PAYMENT-SIGNATURE), in place of `transactionHash` and `transfer`" + `.

About up to 25 of both in one payment: ` + "POST %[4]s/v1/verify/batch with `{\"questions\":[…]}`" +
		`, each question as above, with the name of its chain in ` + "`chain`" +
		`; the price is that of one times their number. ` +
		"`answers`" + ` are in the order of the questions; a 422 has ` + "`results`" +
		` for each, and that call charges nothing.

Without a payment the answer is 402: the x402 version 2 challenge is in the PAYMENT-REQUIRED header, ` +
		`that of version 1, where it is taken, in the body. ` +
		`Pay with any x402 client, scheme exact. 200 means that everything you expected holds; ` +
		`a call that is answered 4xx charges nothing. ` +
		"422 says in `reason` and `checks`" + ` what does not hold, or that the transaction is not final yet. ` +
		`After 503 send the same request with the same payment again; do not pay anew.

- How far a transaction is, before you pay: GET %[4]s/v1/status/{chain}/{hash}, free; only a final one can be verified
- What a call sells, as an example: GET %[4]s/v1/sample, free
- Interface: %[4]s/openapi.json
- Keys that sign receipts: %[4]s/.well-known/receipt-signing-key.json
- People check a receipt in the browser: %[4]s/v1/check
`
	const tools = "- Tools for agents (Model Context Protocol, streamable HTTP, x402 version 2 in `_meta`): %s\n"
	const finalityLine = "- Proof that the block of a receipt about %s is final, for readers with a checkpoint of " +
		"their own: GET %s/{block hash}?checkpoint={root}, free; 202 until it is made\n"
	var list strings.Builder
	for _, url := range urls {
		fmt.Fprintf(&list, "- %s\n", url)
	}
	page := fmt.Appendf(nil, text, a.usd(), list.String(), transactionKind.example, a.PublicURL, transferKind.example)
	if a.MCP != nil {
		page = fmt.Appendf(page, tools, a.PublicURL+mcpPath)
	}
	for _, chain := range a.Chains {
		if chain.Finality != nil {
			page = fmt.Appendf(page, finalityLine, chain.Name, a.PublicURL+finalityPath+chain.Name)
		}
	}
	return page
}

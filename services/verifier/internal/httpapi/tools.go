package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// tool is one tool of mcpPath.
type tool struct {
	name, title, description string
	// schema is the JSON Schema of the arguments, and output that of the object that the tool
	// answers with. Official clients check errors and challenges by output too, so that it allows
	// them: see answers.
	schema, output string
	// offer is what a paid tool sells; nil for a free one.
	offer *payment.Offer
	// answer answers a call. With an error, of its result only isPaid and settlement
	// count.
	answer func(ctx context.Context, call toolCall) (toolResult, error)
}

// toolCall is one call of a tool.
type toolCall struct {
	arguments []byte
	// payment is the x402 payment in JSON, nil where none came with the call.
	payment []byte
	address string
	// isCounted reports that the call has taken an attempt from the address.
	isCounted bool
	// links reports that the client knows links to resources, which are not in the first versions
	// of the protocol.
	links bool
	// ended is as in paidCall.
	ended <-chan struct{}
}

// toolResult is what a tool answers.
type toolResult struct {
	body []byte // a JSON object
	// content is what models read; nil where it is the object as text.
	content []mcp.Content
	isError bool
	// isPaid reports that a payment came with the call; settlement is as in sold.
	isPaid     bool
	settlement *x402.SettleResponse
	// outcome is counted and logged; err is logged.
	outcome string
	err     error
}

// encode returns the result as the SDK has it. Without content the body is there twice, as an object for
// programs and as text for models: the x402 transport requires this of a challenge.
func (r toolResult) encode() *mcp.CallToolResult {
	result := &mcp.CallToolResult{
		IsError: r.isError, StructuredContent: json.RawMessage(r.body), Content: r.content,
	}
	if r.content == nil {
		result.Content = []mcp.Content{&mcp.TextContent{Text: string(r.body)}}
	}
	if r.settlement != nil {
		result.Meta = mcp.Meta{metaSettlement: r.settlement}
	}
	return result
}

// described returns how tools/list shows the tool.
func (t tool) described() *mcp.Tool {
	isPaid := t.offer != nil
	hints := &mcp.ToolAnnotations{ReadOnlyHint: !isPaid, IdempotentHint: isPaid, OpenWorldHint: &isPaid}
	if isPaid {
		hints.DestructiveHint = new(false)
	}
	return &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: json.RawMessage(t.schema),
		OutputSchema: json.RawMessage(t.output), Annotations: hints,
	}
}

const outcomeOK = "ok"

// tools returns all tools: one for each kind of evidence, and the free ones.
func (a *api) tools() ([]tool, error) {
	var all []tool
	for _, kind := range kinds {
		t, err := a.paidTool(kind)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return append(all, a.statusTool(), a.checkReceipt(), a.quote(all), a.listChains()), nil
}

// paidTool returns the tool that sells one kind of evidence about any chain.
func (a *api) paidTool(k *kind) (tool, error) {
	operations := a.operations[k]
	for _, o := range operations {
		a.Metrics.sells(o.name(), payment.TransportMCP)
	}
	t := tool{
		name: k.tool, title: k.title, schema: a.withChain(k.toolSchema, proofArgument),
		output: answers(soldOutput, challengeOutput),
	}
	t.offer = &payment.Offer{
		Terms: a.Terms,
		Resource: x402.Resource{
			URL: a.PublicURL + mcpPath, Description: "Signed, offline-checkable evidence about " + k.subject +
				", judged against your expectations.",
			MimeType: receipt.MediaTypeJSON, ServiceName: "Pforte", Tags: resourceTags,
		},
	}
	t.description = t.offer.Resource.Description + " Costs " + a.usd() + " USD, paid by x402; an error costs nothing."
	t.offer.Extensions = payment.Extensions{
		"bazaar":                    toolBazaar(t, k),
		payment.ExtensionIdentifier: payment.IdentifierExtension(),
	}
	unpaid, err := json.Marshal(t.offer.Challenge("Payment required: " + a.usd() + " USD in " + a.Terms.AssetName +
		" on " + a.Terms.Network +
		". This client sent no x402 payment; to buy from a client without a wallet run `agent mcp`."))
	if err != nil {
		return tool{}, fmt.Errorf("encode the challenge of %s: %w", k.tool, err)
	}
	t.answer = func(ctx context.Context, call toolCall) (toolResult, error) {
		return a.callPaid(ctx, *t.offer, operations, unpaid, call)
	}
	return t, nil
}

// callPaid is [api.sell] as a tool: the request is in the arguments, the payment in _meta.
// A payment in an HTTP header does not count here.
func (a *api) callPaid(ctx context.Context, offer payment.Offer, operations []operation, unpaid []byte,
	call toolCall,
) (toolResult, error) {
	found := toolResult{isPaid: call.payment != nil}
	form, arguments, err := takeProof(call.arguments)
	if err != nil {
		return found, err
	}
	o, body, err := operationOf(operations, arguments)
	if err == nil && o.kind == &transferKind {
		body, err = verification.AtomicAmount(o.chain.named().ID, body)
	}
	if err != nil {
		return found, err
	}
	paid := paidCall{
		operation: o, transport: payment.TransportMCP, address: call.address, offer: offer, body: body,
		read: func() (pricedRequest, error) { return o.read(body) }, times: rewritten, ended: call.ended,
	}
	if found.isPaid {
		paid.payment = func() (payment.Payment, error) { return payment.ReadObject(call.payment) }
	}
	sold, err := a.sell(ctx, paid)
	found.settlement = sold.settlement
	switch {
	case err != nil:
		return found, err
	case sold.isUnpaid:
		found.body, found.isError, found.outcome = unpaid, true, "payment_required"
		return found, nil
	}
	told, err := a.soldTool(sold.answer.Bytes(), form, call.links)
	told.isPaid, told.settlement = found.isPaid, found.settlement
	return told, err
}

// takeProof returns the argument proof as proofOf reads it, and the arguments without it. A proof that is null
// stays in them, and is refused when the request is read.
func takeProof(arguments []byte) (form proofForm, rest []byte, err error) {
	var chosen struct {
		Proof *string `json:"proof"`
	}
	if err = strictjson.Unmarshal(arguments, &chosen,
		strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return "", nil, err
	}
	if form, err = proofOf(chosen.Proof); err != nil || chosen.Proof == nil {
		return form, arguments, err
	}
	rest, err = without(arguments, "proof")
	return form, rest, err
}

// operationOf returns the operation of the chain that the arguments name, and the arguments without that name: the
// body of the HTTP request, but for amountDecimal. Where they name none, it is the operation of the chain on which
// the x402 payment was made that they ask about, or else the first. A name that is null is refused as proof is.
func operationOf(operations []operation, arguments []byte) (operation, []byte, error) {
	var chosen struct {
		Chain *string `json:"chain"`
	}
	if err := strictjson.Unmarshal(arguments, &chosen,
		strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return operation{}, nil, err
	}
	if chosen.Chain == nil {
		return operationAbout(operations, arguments), arguments, nil
	}
	body, err := without(arguments, "chain")
	if err != nil {
		return operation{}, nil, err
	}
	var names []string
	for _, o := range operations {
		if o.chain.Name == *chosen.Chain {
			return o, body, nil
		}
		names = append(names, o.chain.Name)
	}
	return operation{}, nil, &strictjson.Error{
		Pointer: "/chain", Reason: "is none of the chains here, which are " + strings.Join(names, ", "),
	}
}

// without returns a JSON object, whose form was checked, without one member. The
// values of the others keep their bytes, and all their order.
func without(object []byte, name string) ([]byte, error) {
	members := json.NewDecoder(bytes.NewReader(object))
	if _, err := members.Token(); err != nil {
		return nil, err
	}
	rest := []byte{'{'}
	for members.More() {
		key, err := members.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := members.Decode(&value); err != nil {
			return nil, err
		}
		if key == name {
			continue
		}
		quoted, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, quoted...), ':'), value...)
	}
	return append(rest, '}'), nil
}

// withChain returns the schema of a request with the member chain, and others, before its own.
func (a *api) withChain(schema string, others ...string) string {
	var names []string
	for _, chain := range a.Chains {
		names = append(names, chain.Name)
	}
	chain := encoded(map[string]any{
		"type": "string", "enum": names,
		"description": "a name of list_chains; absent: " + names[0],
	})
	return verification.SchemaWith(schema, append([]string{`"chain":` + chain}, others...)...)
}

// encoded returns texts as JSON.
func encoded(texts any) string {
	text, err := json.Marshal(texts)
	if err != nil {
		panic(err) // of texts: cannot happen
	}
	return string(text)
}

// toolBazaar describes a tool to registries (x402 extension bazaar).
func toolBazaar(t tool, k *kind) json.RawMessage {
	return json.RawMessage(`{"info":{"input":{"type":"mcp","toolName":"` + t.name + `",` +
		`"description":` + encoded(t.description) +
		`,"transport":"streamable-http","inputSchema":` + t.schema + `,"example":` + k.example + `},` +
		`"output":{"type":"json","example":` + k.output + `}},` +
		`"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` +
		`"input":{"type":"object","properties":{"type":{"type":"string","const":"mcp"},"toolName":{"type":"string"},` +
		`"description":{"type":"string"},` +
		`"transport":{"type":"string","enum":["streamable-http","sse"]},"inputSchema":{"type":"object"},` +
		`"example":{"type":"object"}},` +
		`"required":["type","toolName","inputSchema"],"additionalProperties":false},` +
		`"output":{"type":"object","properties":{"type":{"type":"string"},"example":{"type":"object"}},` +
		`"required":["type"]}},"required":["input"]}}`)
}

// freeTool returns a tool that reads its arguments by rules into an In and answers with
// what run returns.
func freeTool[In any](name, title, description, schema, output string, rules strictjson.Rules,
	run func(context.Context, toolCall, In) (any, error),
) tool {
	return tool{
		name: name, title: title, description: description, schema: schema, output: answers(output),
		answer: func(ctx context.Context, call toolCall) (toolResult, error) {
			var in In
			if err := strictjson.Unmarshal(call.arguments, &in, rules); err != nil {
				return toolResult{}, err
			}
			out, err := run(ctx, call, in)
			if err != nil {
				return toolResult{}, err
			}
			body, err := json.Marshal(out)
			return toolResult{body: body, outcome: outcomeOK}, err
		},
	}
}

// checkedReceipt is what check_receipt answers. A receipt that does not hold is an
// answer, no error.
type checkedReceipt struct {
	Valid bool `json:"valid"`
	// Reason is why not: the text of one of package receipt's errors.
	Reason string `json:"reason,omitempty"`
	Kind   string `json:"kind,omitempty"`
	KeyID  string `json:"keyId,omitempty"`
	// Proven follows from the block hash alone; Attested is the signature's word.
	Proven   []receipt.Fact `json:"proven,omitempty"`
	Attested []receipt.Fact `json:"attested,omitempty"`
	Note     string         `json:"note"`
}

// toolCheckReceipt is the one tool whose messages may be over maxMessage.
const toolCheckReceipt = "check_receipt"

const checkNote = "Checked by the service that signs receipts. " +
	"Who does not rely on it checks again with `receipt verify`, which needs no network."

func (a *api) checkReceipt() tool {
	type arguments struct {
		Answer json.RawMessage `json:"answer"`
		Link   *string         `json:"link"`
	}
	return freeTool(toolCheckReceipt, "Check a receipt",
		"Checks the signature and the proof of an answer that a paid tool gave, and lists what is proven and what "+
			"is only attested. Free. "+checkNote,
		`{"type":"object","additionalProperties":false,"properties":{`+
			`"link":{"type":"string","description":"the link that a paid tool gave"},`+
			`"answer":{"type":["object","string"],`+
			`"description":"in place of a link: the whole answer, as an object or as its text; at most 256 KB"}}}`,
		checkedOutput, strictjson.Rules{AllowNull: true}, // a receipt has some
		func(ctx context.Context, call toolCall, in arguments) (any, error) {
			answer := []byte(in.Answer)
			if (len(answer) == 0) == (in.Link == nil) {
				return nil, &strictjson.Error{Pointer: "/answer", Reason: "or link is required, one of them"}
			}
			if !call.isCounted {
				if err := a.Paywall.CountFree(call.address); err != nil {
					return nil, err
				}
			}
			// A kept answer may be much larger than any message, and its check takes long after it was read.
			var checked checkedReceipt
			ctx, checkedAll := context.WithCancel(ctx)
			defer checkedAll()
			_, err := a.checks.read(ctx, func(ctx context.Context) (_ []byte, err error) {
				if in.Link != nil {
					answer, err = a.kept(ctx, strings.TrimPrefix(*in.Link, a.PublicURL+receiptsPath))
				} else if answer[0] == '"' {
					var text string
					if json.Unmarshal(answer, &text) != nil {
						err = &strictjson.Error{Pointer: "/answer", Reason: "cannot be read"}
					}
					answer = []byte(text)
				}
				if err == nil && in.Link != nil && !a.largeFree.hold(taken(len(answer), rewritten), ctx.Done()) {
					err = errManyLarge
				}
				if err == nil {
					checked = a.checked(answer)
				}
				return nil, err
			})
			return checked, err
		})
}

// checked checks an answer by the service's own keys.
func (a *api) checked(answer []byte) checkedReceipt {
	signed, err := receipt.Parse(answer)
	var result receipt.Result
	if err == nil {
		result, err = signed.Verify(a.Keys)
	}
	if err != nil {
		return checkedReceipt{Reason: reasonOf(err), Note: checkNote}
	}
	return checkedReceipt{
		Valid: true, Kind: result.Receipt.Type, KeyID: result.Key.KeyID, Proven: result.Proven,
		Attested: result.Attested, Note: checkNote,
	}
}

// reasonOf returns the text of the error of package receipt that err is one of, or of ErrMalformed.
func reasonOf(err error) string {
	for _, known := range []error{
		receipt.ErrUnknownKey, receipt.ErrRevokedKey, receipt.ErrSignature,
		receipt.ErrProof,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return receipt.ErrMalformed.Error()
}

// quoted is the price of a tool.
type quoted struct {
	Tool      string `json:"tool"`
	USD       string `json:"usd"`
	Amount    string `json:"amount"` // in atomic units
	Asset     string `json:"asset"`
	AssetName string `json:"assetName"`
	Network   string `json:"network"`
	PayTo     string `json:"payTo"`
}

func (a *api) quote(paid []tool) tool {
	type arguments struct {
		Tool *string `json:"tool"`
	}
	var names []string
	for _, t := range paid {
		names = append(names, t.name)
	}
	return freeTool("quote", "Price of a paid tool",
		"Returns what each paid tool costs, how it is paid, and whether sales are open. Free.",
		`{"type":"object","additionalProperties":false,`+
			`"properties":{"tool":{"type":"string","enum":`+encoded(names)+`,"description":"absent: all"}}}`,
		quoteOutput, strictjson.Rules{},
		func(ctx context.Context, _ toolCall, in arguments) (any, error) {
			out := struct {
				Prices    []quoted   `json:"prices"`
				SalesOpen bool       `json:"salesOpen"`
				Closed    *errorBody `json:"closed,omitempty"` // why not
			}{SalesOpen: true}
			for _, t := range paid {
				if terms := t.offer.Terms; in.Tool == nil || *in.Tool == t.name {
					out.Prices = append(out.Prices,
						quoted{t.name, a.usd(), terms.Amount, terms.Asset, terms.AssetName, terms.Network, terms.PayTo})
				}
			}
			if out.Prices == nil {
				return nil, &strictjson.Error{Pointer: "/tool", Reason: "is no paid tool"}
			}
			if err := a.Paywall.CheckQuota(ctx); err != nil {
				closed := a.bodyOf(err, false)
				out.SalesOpen, out.Closed = false, &closed
			}
			return out, nil
		})
}

// namedChain is a chain as documents and tools name it.
type namedChain struct {
	Name string `json:"name"`
	ID   string `json:"id"` // CAIP-2
}

func (c Chain) named() namedChain {
	return namedChain{Name: c.Name, ID: "eip155:" + strconv.FormatUint(c.ID, 10)}
}

// listedChain is a chain as list_chains shows it.
type listedChain struct {
	namedChain
	// Finalized is the number of the last final block, null when no quorum of nodes
	// has lately reported it.
	Finalized *string `json:"finalized"`
	// Tokens are those whose amounts a call of verify_token_transfer may give as amountDecimal.
	Tokens []listedToken `json:"tokens,omitempty"`
}

// listedToken is a known token as list_chains shows it.
type listedToken struct {
	Symbol   string `json:"symbol"`
	Address  string `json:"address"`
	Decimals int    `json:"decimals"`
}

const (
	// headsTimeout bounds how long list_chains waits for nodes that have not reported
	// lately, and headsWaiters how many calls do so: the call is free, and each that
	// waits holds a place at the proxy that a buyer may need.
	headsTimeout = 2 * time.Second
	headsWaiters = 4
)

func (a *api) listChains() tool {
	waiters := make(chan struct{}, headsWaiters)
	return freeTool("list_chains", "Chains",
		"Lists the chains whose transactions are verified, with their last final block and the tokens known by "+
			"symbol. Free.",
		`{"type":"object","additionalProperties":false}`, chainsOutput, strictjson.Rules{},
		func(ctx context.Context, _ toolCall, _ struct{}) (any, error) {
			ctx, cancel := context.WithTimeout(ctx, headsTimeout)
			defer cancel()
			select {
			case waiters <- struct{}{}:
				defer func() { <-waiters }()
			default:
				cancel() // what is known is known without waiting
			}
			chains := []listedChain{}
			for _, chain := range a.Chains {
				listed := listedChain{namedChain: chain.named()}
				for _, t := range receipt.KnownTokens(listed.ID) {
					listed.Tokens = append(listed.Tokens, listedToken{t.Symbol, t.Address, t.Decimals})
				}
				if heads, err := chain.Heads(ctx); err == nil {
					listed.Finalized = new(strconv.FormatUint(heads.Finalized, 10))
				}
				chains = append(chains, listed)
			}
			return map[string]any{"chains": chains}, nil
		})
}

package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// kind is one kind of evidence that is sold, about every chain.
type kind struct {
	// suffix ends the path of each chain; firstPath is the path that names no chain, under which api/openapi.json
	// describes all paths of the kind.
	suffix, firstPath string
	// operationID names firstPath in the OpenAPI document.
	operationID string
	// tool and title name the tool of mcpPath; title is also that of the page with the price.
	tool, title string
	// subject is what the evidence is about, without the chain.
	subject string
	// example is a request that reaches the 402: registries replay it.
	example string
	// output is a part of the answer to the example.
	output string
	// schema is a JSON Schema of requests; toolSchema that of the tool's arguments without chain and
	// proof.
	schema, toolSchema string
	// parse reads a request, in JSON. All its errors are *strictjson.Error.
	parse func(body []byte) (verification.Question, error)
}

// kinds are all kinds of evidence that are sold, in the order in which they are described.
var kinds = []*kind{&transactionKind, &transferKind}

// transactionKind is the operation of VERIFIER-1.1. The schema is that of
// api/openapi.json without its texts: the whole answer to an unpaid call should fit
// into one buffer of net/http, 4 KB. Registries post what they make from it, which should
// not be answered 400.
var transactionKind = kind{
	suffix: "-transaction", firstPath: "/v1/verify/chain-transaction", operationID: "verify",
	tool: "verify_transaction", title: "Verify a transaction", toolSchema: verification.TransactionSchema,
	subject: "one finalized transaction",
	example: `{"transactionHash":"0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb",` +
		`"expectations":{"status":"success"}}`,
	output: `{"receipt":{"transaction":{"from":"0xf9868b3960348194371b8ca4fe87ca7de95e40b6",` +
		`"valueWei":"0"},"verdict":"verified"}}`,
	schema: `{"type":"object","required":["transactionHash"],"additionalProperties":false,"properties":{` +
		`"transactionHash":{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"},` +
		`"expectations":{"type":"object","additionalProperties":false,` +
		`"properties":{"status":{"type":"string","enum":["success","reverted"]},` +
		`"from":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},` +
		`"to":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},` +
		`"selector":{"type":"string","pattern":"^0x[0-9a-fA-F]{8}$"},` +
		`"minConfirmations":{"type":"integer","minimum":1,"maximum":100000}}}}}`,
	parse: func(body []byte) (verification.Question, error) { return verification.ParseRequest(body) },
}

// transferKind is the operation about one transfer. Its schema leaves out minAmount,
// which excludes amount, and authorization, which fixes from: what registries make of it
// must be a body that is answered 402.
var transferKind = kind{
	suffix: "-token-transfer", firstPath: "/v1/verify/token-transfer", operationID: "verifyTransfer",
	tool: "verify_token_transfer", title: "Verify a token transfer",
	subject: "one transfer of a token or of the native coin",
	example: `{"transactionHash":"0x2e1d81473d582450c1e75709902396aa65ac4fbdd2b04f2bc08d24b32a569c1c",` +
		`"transfer":{"token":"0x4200000000000000000000000000000000000006",` +
		`"to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03","amount":"29102531643592471"}}`,
	output: `{"receipt":{"transfer":{"from":"0xfcd3842f85ed87ba2889b4d35893403796e67ff1",` +
		`"to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03","amount":"29102531643592471"},` +
		`"verdict":"verified"}}`,
	schema: `{"type":"object","required":["transactionHash","transfer"],"additionalProperties":false,"properties":{` +
		`"transactionHash":{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"},` +
		`"transfer":{"type":"object","required":["token","to","amount"],"additionalProperties":false,"properties":{` +
		`"token":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},` +
		`"from":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},` +
		`"to":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},` +
		`"amount":{"type":"string","pattern":"^[1-9][0-9]{0,76}$"},` +
		`"logPosition":{"type":"integer","minimum":0,"maximum":1000000}}},` +
		`"expectations":{"type":"object","additionalProperties":false,` +
		`"properties":{"minConfirmations":{"type":"integer","minimum":1,"maximum":100000}}}}}`,
	toolSchema: verification.TransferSchema,
	parse:      func(body []byte) (verification.Question, error) { return verification.ParseTransferRequest(body) },
}

// operation is one kind of evidence about one chain: a product, as a batch is, whichever
// protocol brings the request and the payment.
type operation struct {
	*kind
	chain    Chain
	receipts *verification.Receipts
}

// path returns the path of the operation's own chain. It is in the fingerprint of a request, also of one
// that came by firstPath or by mcpPath.
func (o operation) path() string { return "/v1/verify/" + o.name() }

// name returns the operation's name in the ledger and in metrics, as "base-transaction".
func (o operation) name() string { return o.chain.Name + o.suffix }

// description returns the offer's text for people.
func (o operation) description() string {
	return "Signed, offline-checkable evidence about " + o.subject + " on " + o.chain.Name +
		", judged against your expectations."
}

// read reads a request, in JSON. All its errors are *strictjson.Error.
func (o operation) read(body []byte) (pricedRequest, error) {
	if o.kind == &transferKind {
		var chain string
		var err error
		if body, chain, err = verification.ExpandPayment(body); err != nil {
			return nil, err
		}
		if chain != "" && chain != o.chain.named().ID {
			return nil, &strictjson.Error{
				Pointer: "/payment/response", Reason: "is of the chain " + chain + ", and this is sold about " +
					o.chain.named().ID,
			}
		}
	}
	question, err := o.parse(body)
	return asked{o, question}, err
}

// pricedRequest is a request, read and checked, whose answer a payment buys.
type pricedRequest interface {
	// fingerprint returns what binds a payment to the request.
	fingerprint() payment.Digest
	// work returns the signed answer, in JSON: what paywall.Order takes as Work.
	work(ctx context.Context) ([]byte, error)
	// questions returns how many questions the request has.
	questions() int
}

// asked is a request of an operation.
type asked struct {
	operation operation
	question  verification.Question
}

func (a asked) fingerprint() payment.Digest {
	return sha256.Sum256(append([]byte("POST "+a.operation.path()+"\n"), a.question.Canonical()...))
}

func (a asked) work(ctx context.Context) ([]byte, error) {
	chain := a.operation.chain
	return a.operation.receipts.Signed(ctx, chain.Name, chain.Verifier, a.question)
}

func (a asked) questions() int { return 1 }

// bazaar describes to registries what the paid call takes and returns (x402 extension
// bazaar).
func (o operation) bazaar() json.RawMessage {
	return bazaarOf(o.example, o.schema, o.output)
}

// bazaarOf returns the description of a paid call for registries (x402 extension bazaar) by an example and
// the schema of a body, and an example of an answer.
func bazaarOf(example, schema, answer string) json.RawMessage {
	return json.RawMessage(`{"info":{"input":{"type":"http","method":"POST","bodyType":"json",` +
		`"body":` + example + `},` +
		`"output":{"type":"json","example":` + answer + `}},` +
		`"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` +
		`"input":{"type":"object","properties":{"type":{"type":"string","const":"http"},` +
		`"method":{"type":"string","enum":["POST"]},` +
		`"bodyType":{"type":"string","enum":["json"]},"body":` + schema + `},` +
		`"required":["type","method","bodyType","body"],"additionalProperties":false},` +
		`"output":{"type":"object","properties":{"type":{"type":"string"},"example":{"type":"object"}},` +
		`"required":["type"]}},"required":["input"]}}`)
}

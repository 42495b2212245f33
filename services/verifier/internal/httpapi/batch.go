package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// A batch is up to maxQuestions questions, of both kinds and about any of the chains, that one
// payment buys the answers to: all of them or none.

const (
	// batchPath is the path that sells a batch, batchName its name in the ledger and in metrics.
	batchPath = "/v1/verify/batch"
	batchName = "batch"
	// maxQuestions bounds a batch, and maxBatchBody its body in bytes.
	maxQuestions = 25
	maxBatchBody = 32 << 10
	// batchAtOnce is how many questions of one batch are worked on at a time, at most.
	batchAtOnce = 4
)

// Errors of the body of a batch.
var (
	errQuestionsMissing = errors.New("body is missing")
	errBatchTooLarge    = errors.New("body of a batch is too large")
)

// batch is what batchPath sells.
type batch struct{ operations map[*kind][]operation }

func (b batch) name() string { return batchName }

func (b batch) description() string {
	return "Signed, offline-checkable evidence about up to " + strconv.Itoa(maxQuestions) + " finalized transactions " +
		"and transfers in one payment, each answer signed alone; all or nothing is charged. The price is that of one " +
		"question times their number."
}

// batchExample is a request that is answered 402 without a payment.
const batchExample = `{"questions":[` +
	`{"transactionHash":"0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb",` +
	`"expectations":{"status":"success"}},` +
	`{"transactionHash":"0x2e1d81473d582450c1e75709902396aa65ac4fbdd2b04f2bc08d24b32a569c1c",` +
	`"transfer":{"token":"0x4200000000000000000000000000000000000006",` +
	`"to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03","amount":"29102531643592471"}}]}`

// batchSchema describes a batch of transactions. It requires only one, because registries post what
// they make of it, and two equal questions would be refused.
const batchSchema = `{"type":"object","required":["questions"],"additionalProperties":false,"properties":{` +
	`"questions":{"type":"array","minItems":1,"maxItems":25,"items":{"type":"object","required":["transactionHash"],` +
	`"properties":{"transactionHash":{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"}}}}}}`

func (b batch) bazaar() json.RawMessage {
	return bazaarOf(batchExample, batchSchema,
		`{"answers":[{"receipt":{"verdict":"verified"},"signature":{"algorithm":"Ed25519"}}]}`)
}

// askedBatch is a batch that was read.
type askedBatch []asked

// read reads a batch. A question is the body of its own path, but without payment, and may have the
// member chain, the name of its chain. It is about a transfer where it has the member transfer.
func (b batch) read(body []byte) (askedBatch, error) {
	var wire struct {
		Questions []json.RawMessage `json:"questions"`
	}
	if err := strictjson.Unmarshal(body, &wire, strictjson.Rules{}); err != nil {
		return nil, err
	}
	if n := len(wire.Questions); n < 1 || n > maxQuestions {
		return nil, &strictjson.Error{
			Pointer: "/questions", Reason: fmt.Sprintf("must have from 1 to %d questions", maxQuestions),
		}
	}
	all := make(askedBatch, len(wire.Questions))
	first := map[payment.Digest]int{}
	for i, text := range wire.Questions {
		question, err := b.question(text)
		if err != nil {
			var malformed *strictjson.Error
			if !errors.As(err, &malformed) {
				return nil, err
			}
			return nil, &strictjson.Error{Pointer: fieldOf(i) + malformed.Pointer, Reason: malformed.Reason}
		}
		print := question.fingerprint()
		if earlier, repeats := first[print]; repeats {
			return nil, &strictjson.Error{Pointer: fieldOf(i), Reason: fmt.Sprintf("repeats question %d", earlier)}
		}
		all[i], first[print] = question, i
	}
	return all, nil
}

// fieldOf returns the JSON pointer to a question.
func fieldOf(at int) string { return "/questions/" + strconv.Itoa(at) }

func (b batch) question(text []byte) (asked, error) {
	if !bytes.HasPrefix(text, []byte("{")) {
		return asked{}, &strictjson.Error{Reason: "must be an object"}
	}
	var about struct {
		Transfer json.RawMessage `json:"transfer"`
	}
	if err := strictjson.Unmarshal(text, &about, strictjson.Rules{AllowUnknown: true}); err != nil {
		return asked{}, err
	}
	kind := &transactionKind
	if about.Transfer != nil {
		kind = &transferKind
	}
	o, body, err := operationOf(b.operations[kind], text)
	if err != nil {
		return asked{}, err
	}
	question, err := o.parse(body)
	return asked{o, question}, err
}

// fingerprint implements pricedRequest. The order of the questions counts, because
// the answers have the same.
func (b askedBatch) fingerprint() payment.Digest {
	sum := sha256.New()
	sum.Write([]byte("POST " + batchPath + "\n"))
	for _, question := range b {
		single := question.fingerprint()
		sum.Write(single[:])
	}
	return payment.Digest(sum.Sum(nil))
}

// work implements pricedRequest.
func (b askedBatch) work(ctx context.Context) ([]byte, error) {
	questions := make([]verification.Asked, len(b))
	for i, a := range b {
		chain := a.operation.chain
		questions[i] = verification.Asked{Chain: chain.Name, Verifier: chain.Verifier, Question: a.question}
	}
	answers, err := b[0].operation.receipts.SignedAll(ctx, questions, batchAtOnce)
	if err != nil {
		return nil, err
	}
	bytes := 0
	for _, answer := range answers {
		bytes += len(answer)
	}
	if err := paywall.Hold(ctx, bytes); err != nil { // those that were kept take no place yet
		return nil, err
	}
	return receipt.JoinAnswers(answers), nil
}

func (b askedBatch) questions() int { return len(b) }

// batchRoute sells a batch over HTTP: each number of questions at its own price.
type batchRoute struct {
	batch
	// routes are the routes for one question, for two, and so on.
	routes []*paidRoute
}

func (a *api) newBatchRoute() (*batchRoute, error) {
	b := &batchRoute{batch: batch{a.operations}}
	for n := 1; n <= maxQuestions; n++ {
		terms := a.Terms
		terms.Amount = a.priceOf(n)
		route, err := a.newPaidRoute(b.batch, batchPath, terms)
		if err != nil {
			return nil, err
		}
		b.routes = append(b.routes, route)
	}
	return b, nil
}

// priceOf returns the price of so many questions, in atomic units.
func (a *api) priceOf(questions int) string {
	unit, ok := new(big.Int).SetString(a.Terms.Amount, 10)
	if !ok {
		return a.Terms.Amount // Terms.Validate refuses it
	}
	return unit.Mul(unit, big.NewInt(int64(questions))).String()
}

// serve answers a POST of a batch. A body that is no batch, as one that only requests the price, is
// handled at the price of one question, unless it is too large.
func (b *batchRoute) serve(c echo.Context) error {
	body, err := service.ReadBody(c.Response(), c.Request(), maxBatchBody)
	if errors.Is(err, service.ErrBodyTooLarge) {
		return errBatchTooLarge
	}
	if err != nil {
		return err
	}
	all, err := b.readRequest(c.Request().Header, body)
	route := b.routes[max(0, len(all)-1)]
	return route.sell(c, body, func() (pricedRequest, error) { return all, err })
}

func (b *batchRoute) readRequest(h http.Header, body []byte) (askedBatch, error) {
	switch {
	case len(body) == 0:
		return nil, errQuestionsMissing
	case !service.IsJSON(h):
		return nil, service.ErrMediaType
	}
	return b.read(body)
}

// questionResult is what became of one question of a batch that was refused.
type questionResult struct {
	Index int `json:"index"`
	// Verdict is "verified" where the question holds. Else it is "", and Reason and the members after
	// it are those of the error that the question would be answered with alone.
	Verdict           string               `json:"verdict,omitempty"`
	Reason            string               `json:"reason,omitempty"`
	Error             string               `json:"error,omitempty"`
	Retryable         bool                 `json:"retryable,omitempty"`
	RetryAfterSeconds int                  `json:"retryAfterSeconds,omitempty"`
	Checks            []verification.Check `json:"checks,omitempty"`
}

// unprovenBatch returns the answer to a batch of which not all holds (422): the error of the
// question that stands for the whole batch, and what became of each.
func unprovenBatch(refused *verification.BatchError) errorBody {
	at, _ := refused.Decisive()
	var body errorBody
	var results []questionResult
	wait := 0
	for i, err := range refused.Faults {
		if err == nil {
			results = append(results, questionResult{Index: i, Verdict: receipt.Verdict})
			continue
		}
		var fault *chain.Fault
		errors.As(err, &fault) // all do
		single := unproven(err, fault)
		if i == at {
			body = single
		}
		wait = max(wait, single.RetryAfterSeconds)
		results = append(results, questionResult{
			Index: i, Reason: single.Reason, Error: single.Error, Retryable: single.Retryable,
			RetryAfterSeconds: single.RetryAfterSeconds, Checks: single.Checks,
		})
	}
	body.Error = fmt.Sprintf("Question %d: %s", at, body.Error)
	body.Field, body.Results, body.Checks = fieldName(at), results, nil
	if body.Retryable {
		body.RetryAfterSeconds = wait
	}
	return body
}

// fieldName returns the name of a question in errorBody.Field.
func fieldName(at int) string { return "questions." + strconv.Itoa(at) }

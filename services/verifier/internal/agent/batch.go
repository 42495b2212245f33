package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// batchPath is the path at which several questions are asked for one payment.
const batchPath = "/v1/verify/batch"

// readBatch reads the questions of a file, which is a body of batchPath.
func readBatch(file string) ([]question, error) {
	text, err := os.ReadFile(file) //nolint:gosec // named by the user
	if err != nil {
		return nil, err
	}
	var wire struct {
		Questions []json.RawMessage `json:"questions"`
	}
	if err := strictjson.Unmarshal(text, &wire, strictjson.Rules{}); err != nil {
		return nil, err
	}
	if len(wire.Questions) == 0 {
		return nil, errors.New("there is no question in it")
	}
	all := make([]question, len(wire.Questions))
	for i, one := range wire.Questions {
		if all[i], err = readQuestion(one); err != nil {
			return nil, fmt.Errorf("question %d: %w", i, err)
		}
	}
	return all, nil
}

func readQuestion(text []byte) (question, error) {
	members := map[string]json.RawMessage{}
	if err := strictjson.Unmarshal(text, &members, strictjson.Rules{}); err != nil {
		return question{}, err
	}
	suffix := transactionSuffix
	if members["transfer"] != nil {
		suffix = transferSuffix
	}
	q := question{path: firstPaths[suffix], aboutTransfer: suffix == transferSuffix}
	if chain, named := members["chain"]; named {
		if err := json.Unmarshal(chain, &q.batchChain); err != nil || q.batchChain == "" {
			return question{}, errors.New("chain is not the name of one")
		}
		q.path = "/v1/verify/" + q.batchChain + suffix
		delete(members, "chain")
	}
	body, err := json.Marshal(members)
	if err != nil {
		return question{}, err
	}
	var parsed verification.Question
	if q.aboutTransfer {
		parsed, err = verification.ParseTransferRequest(body)
	} else {
		parsed, err = verification.ParseRequest(body)
	}
	if err != nil {
		return question{}, err
	}
	q.body = string(parsed.Canonical())
	return q, nil
}

// batchBody returns the body of the request that asks the questions.
func batchBody(questions []question) (string, error) {
	var body bytes.Buffer
	body.WriteString(`{"questions":[`)
	for i, q := range questions {
		if i > 0 {
			body.WriteByte(',')
		}
		if q.batchChain == "" {
			body.WriteString(q.body)
			continue
		}
		name, err := json.Marshal(q.batchChain)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&body, `{"chain":%s,%s`, name, q.body[1:])
	}
	body.WriteString(`]}`)
	return body.String(), nil
}

// doBatch buys the answers to all questions of --batch for one payment, and checks each. The payment may cost as
// many times --max-usd as there are questions.
func (r *run) doBatch(ctx context.Context) error {
	body, err := batchBody(r.questions)
	if err != nil {
		return err
	}
	r.buyer.most = new(big.Int).Mul(r.buyer.most, big.NewInt(int64(len(r.questions))))
	p, err := r.buy(ctx, entry{URL: r.buyer.url + batchPath, Body: body, Payer: r.payer})
	if err != nil {
		return err
	}
	if r.out != "" {
		if err := os.WriteFile(r.out, p.answer, 0o600); err != nil {
			return errors.Join(errUndecided, fmt.Errorf("save the receipts: %w", err))
		}
		r.print("Saved the receipts in %s", r.out)
	}
	answers, err := receipt.SplitAnswers(p.answer)
	if err == nil && len(answers) != len(r.questions) {
		err = fmt.Errorf("it has %d answers to %d questions", len(answers), len(r.questions))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errReceipt, err)
	}
	results := make([]receipt.Result, len(answers))
	for i, answer := range answers {
		if results[i], err = r.check(ctx, r.questions[i], answer); err != nil {
			return fmt.Errorf("question %d: %w", i, err)
		}
	}
	if err := r.reportBatch(p, results); err != nil {
		return errors.Join(errUndecided, err)
	}
	return r.finish(p)
}

// outcomeBatch is what --json prints of a batch that succeeds.
type outcomeBatch struct {
	URL      string          `json:"url"`
	Verified bool            `json:"verified"`
	Answers  []outcomeOne    `json:"answers"`
	Payment  outcomePayment  `json:"payment"`
	Answer   json.RawMessage `json:"answer"`
}

type outcomeOne struct {
	Transaction string   `json:"transaction"`
	KeyID       string   `json:"keyId"`
	Proven      []string `json:"proven"`
	Attested    []string `json:"attested"`
}

func (r *run) reportBatch(p purchase, results []receipt.Result) error {
	if r.json {
		o := outcomeBatch{URL: p.URL, Verified: true, Payment: p.outcome(), Answer: p.answer}
		for _, result := range results {
			o.Answers = append(o.Answers, outcomeOne{
				Transaction: result.Receipt.Transaction.Hash, KeyID: result.Key.KeyID,
				Proven: fields(result.Proven), Attested: fields(result.Attested),
			})
		}
		return json.NewEncoder(r.stdout).Encode(o)
	}
	for _, result := range results {
		r.print("Receipt: transaction %s, in block %s of %s",
			result.Receipt.Transaction.Hash, result.Receipt.Block.Number, result.Receipt.Chain.ID)
		if result.Receipt.Transfer != nil {
			r.print("  moved %s", result.Receipt.Transfer.SentenceOn(result.Receipt.Chain.ID))
		}
	}
	r.print("Checked offline: %s. %s for them together.", held(results...), p.paid())
	return nil
}

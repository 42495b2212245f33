package agent

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// question is what one purchase asks.
type question struct {
	// path is that of the paid route.
	path string
	// body is the request in its canonical form: the same bytes for every spelling.
	body string
	// chain is the id of the chain that the receipt must be about, "" when the path or
	// the verifier's key document has it.
	chain string
	// aboutTransfer means that the answer is a receipt about a transfer.
	aboutTransfer bool
	// batchChain is the name that a question of a batch has for its chain, "" for the first.
	batchChain string
}

const (
	// A path ends with the name of a chain and one of these.
	transactionSuffix = "-transaction"
	transferSuffix    = "-token-transfer"
	// anyChain stands in a path for the name of the verifier's first chain.
	anyChain = "chain"
)

// firstPaths ask the verifier's first chain, by suffix.
var firstPaths = map[string]string{
	transactionSuffix: "/v1/verify/" + anyChain + transactionSuffix,
	transferSuffix:    "/v1/verify/token-transfer",
}

// transferPath returns the path that asks about transfers on the chain of another path;
// false when that has no usual name.
func transferPath(path string) (string, bool) {
	if strings.HasSuffix(path, transferSuffix) || strings.HasSuffix(path, firstPaths[transferSuffix]) {
		return path, true
	}
	if prefix, isFirst := strings.CutSuffix(path, firstPaths[transactionSuffix]); isFirst {
		return prefix + firstPaths[transferSuffix], true
	}
	prefix, isNamed := strings.CutSuffix(path, transactionSuffix)
	return prefix + transferSuffix, isNamed
}

// newQuestion asks for the verification of a transaction, or of a transfer. Letters of a
// request may have either case.
func newQuestion(path string, want receipt.Request, chain string) (question, error) {
	texts := []*string{
		&want.TransactionHash, &want.Expectations.From, &want.Expectations.To, &want.Expectations.Selector,
	}
	if want.Transfer != nil {
		transfer := *want.Transfer
		want.Transfer = &transfer
		texts = append(texts, &transfer.Token, &transfer.From, &transfer.To)
		if a := transfer.Authorization; a != nil {
			transfer.Authorization = &receipt.Authorization{
				Authorizer: strings.ToLower(a.Authorizer), Nonce: strings.ToLower(a.Nonce),
			}
		}
	}
	for _, text := range texts {
		*text = strings.ToLower(*text)
	}
	body, err := json.Marshal(want)
	if err != nil {
		return question{}, fmt.Errorf("write the request: %w", err)
	}
	return question{path: path, body: string(body), chain: chain, aboutTransfer: want.Transfer != nil}, nil
}

// canonical returns a request of the journal in its canonical form. A request that cannot be read,
// or is about a transfer, is returned as it is: no version kept those in another form.
func canonical(_, body string) string {
	request, err := verification.ParseRequest([]byte(body))
	if err != nil {
		return body
	}
	return string(request.Canonical())
}

// verify checks the signature and the proof of an answer, which must be of the kind that
// was asked for.
func (q question) verify(answer []byte, keys receipt.KeyDocument) (receipt.Result, error) {
	if q.aboutTransfer {
		return receipt.VerifyTransfer(answer, keys)
	}
	return receipt.Verify(answer, keys)
}

// suffix returns what a path of this question ends with, unless the user names another.
func (q question) suffix() string {
	if q.aboutTransfer {
		return transferSuffix
	}
	return transactionSuffix
}

// checkAnswers compares a receipt with the question that was paid for.
func (q question) checkAnswers(got receipt.Receipt, firstChain string) error {
	answered, err := json.Marshal(got.Request)
	if err != nil {
		return fmt.Errorf("write the request of the receipt: %w", err)
	}
	if string(answered) != q.body {
		return fmt.Errorf("it answers another question")
	}
	return q.checkChain(got.Chain, firstChain)
}

// checkChain compares a receipt's chain with the one that was paid for. A
// transaction without replay protection stands on several chains under one hash,
// so that the hash alone does not identify it. A path that names no chain stands for
// the verifier's first one, which its key document has.
func (q question) checkChain(got receipt.Chain, first string) error {
	name, named := strings.CutSuffix(path.Base(q.path), q.suffix())
	named = named && name != anyChain
	id := q.chain
	if id == "" && !named {
		id = first
	}
	const other = "it is about the chain %s (%s), and the chain %s was paid for"
	switch {
	case named && got.Name != name:
		return fmt.Errorf(other, got.Name, got.ID, name)
	case id != "" && got.ID != id:
		return fmt.Errorf(other, got.Name, got.ID, id)
	}
	return nil
}

package agent

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// question is what one purchase asks, or one of the questions of a batch.
type question struct {
	// path is the path of the paid route for this question alone.
	path string
	// body is the request in its canonical form: the same bytes for every spelling.
	body string
	// chain is the id of the chain that the receipt must be about, "" where the path or the key document has it.
	chain string
	// aboutTransfer means that the answer is a receipt about a transfer.
	aboutTransfer bool
	// batchChain is the name that a question of a batch gives its chain, "" for the first chain.
	batchChain string
}

const (
	// The path of a route of a named chain ends with the name and one of these.
	transactionSuffix = "-transaction"
	transferSuffix    = "-token-transfer"
	// anyChain stands in a path for the name of the verifier's first chain.
	anyChain = "chain"
)

// firstPaths are the paths that ask about the verifier's first chain, by suffix.
var firstPaths = map[string]string{
	transactionSuffix: "/v1/verify/" + anyChain + transactionSuffix,
	transferSuffix:    "/v1/verify/token-transfer",
}

// transferPath returns the path that asks about transfers on the same chain as path; false if there is none.
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

// question returns the question of r.want at r.path, in lower case.
func (r *run) question() question {
	want := r.want
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
	body := verification.Request{Request: want}.Canonical()
	return question{path: r.path, body: string(body), chain: r.chain, aboutTransfer: want.Transfer != nil}
}

// canonical returns the body of a request of the journal in its canonical form. A body that is no request about
// a transaction is returned as it is: no release kept a request about a transfer in another form.
func canonical(body string) string {
	request, err := verification.ParseRequest([]byte(body))
	if err != nil {
		return body
	}
	return string(request.Canonical())
}

// verify checks the signature and any proof of an answer, which must be of the kind that was asked for.
func (q question) verify(answer []byte, keys receipt.KeyDocument) (receipt.Result, error) {
	if q.aboutTransfer {
		return receipt.VerifyTransfer(answer, keys)
	}
	return receipt.Verify(answer, keys)
}

// suffix returns what stands after the name of the chain in a path for questions of this kind that names a chain.
func (q question) suffix() string {
	if q.aboutTransfer {
		return transferSuffix
	}
	return transactionSuffix
}

// checkAnswers compares a receipt with the question that was paid for. For firstChain see checkChain.
func (q question) checkAnswers(got receipt.Receipt, firstChain string) error {
	if string(verification.Request{Request: got.Request}.Canonical()) != q.body {
		return errors.New("it answers another question")
	}
	return q.checkChain(got.Chain, firstChain)
}

// checkChain compares a receipt's chain with the one that was paid for, because a transaction without replay
// protection may be on several chains with one hash. A path that names no chain stands for the verifier's first
// one, whose id is first, or "" where it is not known.
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

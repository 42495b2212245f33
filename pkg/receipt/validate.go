package receipt

import (
	"slices"
	"strings"
)

// maxName bounds the name of a chain, a segment of a URL path.
const maxName = 64

// validate reports whether the receipt is one that may exist: every member in its
// one spelling, and nothing in it that contradicts another.
func (r Receipt) validate() error {
	for _, fault := range []struct {
		what string
		ok   bool
	}{
		{"type", r.Type == Type},
		{"version", r.Version == Version},
		{"verdict", r.Verdict == Verdict},
		{"chain.id", chainID(r.Chain.ID)},
		{"chain.name", chainName(r.Chain.Name)},
		{"finality", r.Finality == Finality{Tag: TagFinalized, Met: true}},
		{"checks", r.checksInOrder()},
		{"request.transactionHash", r.Request.TransactionHash == r.Transaction.Hash},
	} {
		if !fault.ok {
			return malformed("%s is not as the format has it", fault.what)
		}
	}
	if err := r.spelling(); err != nil {
		return err
	}
	if err := r.consistent(); err != nil {
		return err
	}
	return r.Request.Expectations.hold(r)
}

// checksInOrder reports whether the checks are those that follow from the expectations.
func (r Receipt) checksInOrder() bool {
	return slices.ContainsFunc([]string{MethodSecp256k1, MethodPreimage}, func(method string) bool {
		return slices.Equal(r.Checks, ChecksFor(method, r.Request.Expectations))
	})
}

func (r Receipt) spelling() error {
	t, b, o := r.Transaction, r.Block, r.Outcome
	for _, member := range []struct {
		name string
		ok   bool
	}{
		{"transaction.hash", lowerHex(t.Hash, 32)},
		{"transaction.type", transactionType(t.Type)},
		{"transaction.index", quantity(t.Index, 64)},
		{"transaction.from", lowerHex(t.From, 20)},
		{"transaction.to", t.To == nil || lowerHex(*t.To, 20)},
		{"transaction.contractAddress", t.ContractAddress == nil || lowerHex(*t.ContractAddress, 20)},
		{"transaction.selector", t.Selector == nil || lowerHex(*t.Selector, 4)},
		{"transaction.valueWei", quantity(t.ValueWei, 256)},
		{"transaction.nonce", t.Nonce == nil || quantity(*t.Nonce, 64)},
		{"block.number", quantity(b.Number, 64)},
		{"block.hash", lowerHex(b.Hash, 32)},
		{"block.parentHash", lowerHex(b.ParentHash, 32)},
		{"block.timestamp", quantity(b.Timestamp, 64)},
		{"block.transactionsRoot", lowerHex(b.TransactionsRoot, 32)},
		{"block.receiptsRoot", lowerHex(b.ReceiptsRoot, 32)},
		{"outcome.status", o.Status == nil || *o.Status == StatusSuccess || *o.Status == StatusReverted},
		{"outcome.gasUsed", quantity(o.GasUsed, 64)},
		{"outcome.cumulativeGasUsed", quantity(o.CumulativeGasUsed, 64)},
		{"outcome.logs", quantity(o.Logs, 64)},
	} {
		if !member.ok {
			return malformed("%s is not in its one spelling", member.name)
		}
	}
	return nil
}

// consistent reports whether the facts can all be true of one transaction.
func (r Receipt) consistent() error {
	t, o := r.Transaction, r.Outcome
	creation := t.To == nil
	switch {
	case creation && t.Selector != nil:
		return malformed("a contract creation has no selector")
	case t.ContractAddress != nil && (!creation || o.Status == nil || *o.Status != StatusSuccess || t.Nonce == nil):
		return malformed("only a successful creation with a nonce has a contract address")
	case more(o.GasUsed, o.CumulativeGasUsed):
		return malformed("gasUsed is above cumulativeGasUsed")
	case t.Index == "0" && o.GasUsed != o.CumulativeGasUsed:
		return malformed("the first transaction's gasUsed is not its cumulativeGasUsed")
	}
	return nil
}

// hold reports whether every expectation is right in its spelling and holds for
// the receipt's facts. minConfirmations is judged by the signer alone: a receipt
// carries no head.
func (e Expectations) hold(r Receipt) error {
	t := r.Transaction
	for _, expectation := range []struct {
		name     string
		expected string
		found    *string
	}{
		{CheckStatus, e.Status, r.Outcome.Status},
		{CheckFrom, e.From, &t.From},
		{CheckTo, e.To, t.To},
		{CheckSelector, e.Selector, t.Selector},
	} {
		if expectation.expected == "" {
			continue
		}
		if expectation.found == nil || *expectation.found != expectation.expected {
			return malformed("the expectation %s does not hold", expectation.name)
		}
	}
	if e.MinConfirmations < 0 || e.MinConfirmations > MaxConfirmations {
		return malformed("minConfirmations is not from 1 to %d", MaxConfirmations)
	}
	return nil
}

func chainID(text string) bool {
	reference, ok := strings.CutPrefix(text, "eip155:")
	return ok && quantity(reference, 64) && reference != "0"
}

func chainName(text string) bool {
	if text == "" || len(text) > maxName {
		return false
	}
	for _, char := range text {
		if (char < 'a' || char > 'z') && (char < '0' || char > '9') && char != '-' {
			return false
		}
	}
	return true
}

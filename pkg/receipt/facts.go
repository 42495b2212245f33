package receipt

// Fact is one member of a receipt and how it is known.
type Fact struct {
	Field string `json:"field"` // path in the receipt, such as transaction.from
	Value string `json:"value"` // "null" where there is none
	How   string `json:"how"`   // in plain words
}

// How a fact is known.
const (
	howHeader      = "in the block's header"
	howHeaderHash  = "hash of the block's header"
	howTransaction = "in the transaction under transactionsRoot"
	howHash        = "hash of the transaction under transactionsRoot"
	howIndex       = "its key under transactionsRoot"
	howSigned      = "recovered from the transaction's signature"
	howPreimage    = "in what the transaction's hash covers, or fixed by its type"
	howOutcome     = "in its receipt under receiptsRoot"
	howCreation    = "hash of the proven sender and nonce"
	howNoCreation  = "no contract whose address follows from proven facts"
	howFirst       = "cumulative gas of the block's first transaction"
	howExpectation = "the proven facts are as expected"

	howSigner    = "stated by the signer"
	howCanonical = "stated by the signer: this block is the canonical one at its height"
	howFinal     = "stated by the signer: the chain calls this block finalized"
	howDeep      = "stated by the signer: this block has as many confirmations as expected"
)

// facts lists every member of a receipt that is a fact or a check, in order, as
// known by the signature. request is the question, not a fact; type, version and
// verdict are fixed words.
func facts(r Receipt) []Fact {
	t, b, o := r.Transaction, r.Block, r.Outcome
	list := []Fact{
		{"chain.id", r.Chain.ID, howSigner},
		{"chain.name", r.Chain.Name, howSigner},
		{"transaction.hash", t.Hash, howSigner},
		{"transaction.type", t.Type, howSigner},
		{"transaction.index", t.Index, howSigner},
		{"transaction.from", t.From, howSigner},
		{"transaction.to", orNull(t.To), howSigner},
		{"transaction.contractAddress", orNull(t.ContractAddress), howSigner},
		{"transaction.selector", orNull(t.Selector), howSigner},
		{"transaction.valueWei", t.ValueWei, howSigner},
		{"transaction.nonce", orNull(t.Nonce), howSigner},
		{"block.number", b.Number, howSigner},
		{"block.hash", b.Hash, howSigner},
		{"block.parentHash", b.ParentHash, howSigner},
		{"block.timestamp", b.Timestamp, howSigner},
		{"block.transactionsRoot", b.TransactionsRoot, howSigner},
		{"block.receiptsRoot", b.ReceiptsRoot, howSigner},
		{"outcome.status", orNull(o.Status), howSigner},
		{"outcome.gasUsed", o.GasUsed, howSigner},
		{"outcome.cumulativeGasUsed", o.CumulativeGasUsed, howSigner},
		{"outcome.logs", o.Logs, howSigner},
		{"finality.tag", r.Finality.Tag, howFinal},
	}
	for _, check := range r.Checks {
		how := howSigner
		switch check.Name {
		case CheckCanonicalBlock:
			how = howCanonical
		case CheckMinConfirmations:
			how = howDeep
		}
		list = append(list, Fact{"checks." + check.Name, check.Result, how})
	}
	return list
}

// Attested lists the facts of a receipt that are not proven and that only the
// signature stands for: all of them when proven is empty.
func Attested(r Receipt, proven []Fact) []Fact {
	known := make(map[string]bool, len(proven))
	for _, fact := range proven {
		known[fact.Field] = true
	}
	var rest []Fact
	for _, fact := range facts(r) {
		if !known[fact.Field] {
			rest = append(rest, fact)
		}
	}
	return rest
}

func orNull(text *string) string {
	if text == nil {
		return "null"
	}
	return *text
}

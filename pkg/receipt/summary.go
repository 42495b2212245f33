package receipt

// Summary returns what a receipt is evidence of, in one sentence for people and models: who paid
// whom how much of which token, or who called what, where and when. It is for display, and never
// signed. Accounts are written whole; the contract of a token that is not known is shortened, and
// must be read in the receipt.
func (r Receipt) Summary() string {
	return r.deed() + " on " + r.Chain.Name + " at " + r.Block.Date() + ", block " + r.Block.Number
}

func (r Receipt) deed() string {
	if t := r.Transfer; t != nil {
		return t.From + " paid " + r.amount(*t) + " to " + t.To
	}
	done := "called"
	if r.Transaction.Selector == nil {
		done = "sent " + r.Transaction.ValueWei + " wei to"
	}
	var to string
	status := r.Outcome.Status
	switch {
	case r.Transaction.To != nil:
		to = *r.Transaction.To
	case r.Transaction.ContractAddress != nil:
		done, to = "created", *r.Transaction.ContractAddress
	case status != nil && *status == StatusSuccess:
		done, to = "created", "a contract"
	default:
		done, to = "tried to create", "a contract"
	}
	how := "without a recorded outcome"
	if status != nil {
		how = map[string]string{StatusSuccess: "successfully", StatusReverted: "and was reverted"}[*status]
	}
	return r.Transaction.From + " " + done + " " + to + " " + how
}

func (r Receipt) amount(t ProvenTransfer) string {
	if t.Token == nil {
		return t.Amount + " wei of the native coin"
	}
	if known, ok := KnownToken(r.Chain.ID, *t.Token); ok {
		return known.Decimal(t.Amount) + " " + known.Symbol
	}
	return t.Amount + " of token " + shortened(*t.Token)
}

func shortened(address string) string {
	const head, tail = 6, 4
	if len(address) <= head+tail {
		return address
	}
	return address[:head] + "…" + address[len(address)-tail:]
}

package evm

import "testing"

func TestAuthorization_BelongsToTheTransferItMade(t *testing.T) {
	const (
		none, used, other    = Unrelated, AuthorizationUsed, OtherAuthorizationUsed
		paid, payer, another = AuthorizedTransfer, OtherTransferOfPayer, OtherTransfer
	)
	for name, c := range map[string]struct {
		events         []TokenEvent
		mark, transfer int // both 0 for none
	}{
		"nothing":                              {nil, 0, 0},
		"the mark first":                       {[]TokenEvent{used, paid}, 0, 1},
		"logs of others between":               {[]TokenEvent{used, none, none, paid}, 0, 3},
		"the mark last":                        {[]TokenEvent{paid, none, used}, 2, 0},
		"the mark last, of two that fit":       {[]TokenEvent{another, paid, paid, used}, 3, 1},
		"the transfer right after wins":        {[]TokenEvent{paid, used, paid}, 1, 2},
		"no mark":                              {[]TokenEvent{paid}, 0, 0},
		"another's mark":                       {[]TokenEvent{other, paid}, 0, 0},
		"a mark without a transfer":            {[]TokenEvent{used, none}, 0, 0},
		"another's mark between":               {[]TokenEvent{used, other, paid}, 0, 0},
		"many, ours second":                    {[]TokenEvent{other, payer, used, paid}, 2, 3},
		"before one of many marks":             {[]TokenEvent{paid, used, other}, 0, 0},
		"before one of many, ours last":        {[]TokenEvent{paid, other, used}, 0, 0},
		"it paid someone else":                 {[]TokenEvent{used, payer, paid}, 0, 0},
		"it paid someone else, and one before": {[]TokenEvent{paid, used, payer}, 0, 0},
		"a stranger's transfer after it":       {[]TokenEvent{paid, used, another}, 1, 0},
		"a stranger's transfer between":        {[]TokenEvent{used, another, paid}, 0, 0},
	} {
		mark, transfer, ok := PairAuthorization(c.events)
		if ok != (c.mark != c.transfer) || mark != c.mark || transfer != c.transfer {
			t.Errorf("%s: %d, %d, %v", name, mark, transfer, ok)
		}
	}
}

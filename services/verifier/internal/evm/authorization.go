package evm

// TokenEvent is what the pairing of an authorization (EIP-3009) with its transfer sees
// of one log of a transaction. Unrelated are the logs of other contracts, and those of the token
// that are neither transfers nor mark an authorization as used.
type TokenEvent int

// What a log is to the pairing.
const (
	Unrelated              TokenEvent = iota
	AuthorizationUsed                 // of the authorization
	OtherAuthorizationUsed            // of another one
	AuthorizedTransfer                // with payer, payee, amount and, if one is asked for, log position as expected
	OtherTransferOfPayer
	OtherTransfer // of someone else
)

// PairAuthorization returns the places of the log that marks the authorization as used
// and of the transfer that it made; false when it made no such transfer.
//
// A transaction may use many authorizations: the token logs the transfer right after
// the mark (USDC: FiatTokenV2), so it is the token's first transfer after the mark and
// before the next mark. Only where there is but one mark, and no transfer of the payer
// comes right after it, a token may have logged the transfer before: then it is the
// first that is as expected.
func PairAuthorization(events []TokenEvent) (mark, transfer int, ok bool) {
	used, before, marks := -1, -1, 0
	waiting := false     // for the first transfer after our mark
	paidAnother := false // by that transfer
	for i, event := range events {
		switch event {
		case AuthorizationUsed:
			marks++
			used, waiting, paidAnother = i, true, false
		case OtherAuthorizationUsed:
			marks++
			waiting = false
		case AuthorizedTransfer, OtherTransferOfPayer, OtherTransfer:
			if event == AuthorizedTransfer && waiting {
				return used, i, true
			}
			if waiting {
				waiting, paidAnother = false, event == OtherTransferOfPayer
			}
			if event == AuthorizedTransfer && marks == 0 && before < 0 {
				before = i
			}
		}
	}
	if marks == 1 && used >= 0 && before >= 0 && !paidAnother {
		return used, before, true
	}
	return 0, 0, false
}

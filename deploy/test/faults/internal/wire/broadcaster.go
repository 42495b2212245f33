package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// openTexts are what facilitators answer after they have sent a transaction, or
// may have: the reasons of the official ones, free text that was seen, and words
// that only look like other reasons. None means that nothing was sent.
var openTexts = []string{
	"invalid_exact_evm_transaction_failed", "invalid_exact_evm_failed_to_get_receipt", "invalid_exact_evm_failed_to_execute_transfer",
	"request timed out", "Timeout waiting for the receipt", "context deadline exceeded", "did not confirm in time",
	"settlement_pending", "unexpected_settle_error", "unknown_error", "duplicate_settlement", "invalid_exact_evm_nonce_already_used",
	"transaction reverted", "execution reverted: billing", "gas_limit_exceeded", "spending_limit_exceeded", "quota",
	"replacement transaction underpriced", "Known Transaction", "ECONNRESET", "not insufficient_funds", "insufficient_funds_check_skipped",
	"{}", "\u2028", "no", "",
}

// latest is the longest time by which a broadcast is late, some blocks.
const latest = 4 * time.Second

// Broadcaster is a facilitator that sends the transaction, at once or some
// blocks later, and answers anything but a yes: any text, with or without a
// hash, with any status, or nothing. None of its answers reports that nothing
// was sent: while a transfer is under way, such a report cannot be told apart
// from a correct one.
func Broadcaster(x Exchange) (int, []byte) {
	if x.Path != "/settle" {
		return x.Pass(x.Request)
	}
	transaction := []string{"", fmt.Sprintf("0x%064x", x.Random.Uint64()), "0x", "pending"}[x.Random.IntN(4)]
	switch x.Random.IntN(4) {
	case 0: // it is in a block before the answer, which may name it
		_, answer := x.Pass(x.Request)
		var settled struct{ Transaction string }
		if json.Unmarshal(answer, &settled) == nil && x.Random.IntN(2) == 0 {
			transaction = settled.Transaction
		}
	case 1: // it waits for its block
		x.Later(0)
	default:
		x.Later(time.Duration(x.Random.Int64N(int64(latest))))
	}
	return anything(x, transaction)
}

// anything is an answer that is no yes and no definite no.
func anything(x Exchange, transaction string) (int, []byte) {
	text := oddly(x.Random, openTexts[x.Random.IntN(len(openTexts))])
	status := []int{200, 200, 200, 200, 400, 500, 502}[x.Random.IntN(7)]
	switch x.Random.IntN(12) {
	case 0:
		<-x.Gone
		return 0, nil
	case 1:
		return status, []byte(text)
	case 2:
		return status, marshal(map[string]string{"error": text})
	}
	return status, settled(false, text, transaction, network(x.Request), payer(x.Request))
}

// oddly spells a text in another case now and then.
func oddly(random *rand.Rand, text string) string {
	switch random.IntN(4) {
	case 0:
		return strings.ToUpper(text)
	case 1:
		return strings.ReplaceAll(text, "_", " ")
	}
	return text
}

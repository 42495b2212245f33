package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// quantities are the 0x-strings in a text of JSON.
var quantities = regexp.MustCompile(`"0x[0-9a-fA-F]+"`)

// lieAsNode changes one digit of one value in a node's answer, or answers that there
// is nothing.
func lieAsNode(x exchange) (int, []byte) {
	status, answer := x.pass(x.request)
	var envelope map[string]json.RawMessage
	if x.random.IntN(8) > 0 || json.Unmarshal(answer, &envelope) != nil { // a batch is a list
		return status, flip(answer, x.random)
	}
	envelope["result"] = json.RawMessage("null")
	return status, marshal(envelope)
}

// flip changes one hexadecimal digit of one value.
func flip(text []byte, random *rand.Rand) []byte {
	found := quantities.FindAllIndex(text, -1)
	if len(found) == 0 {
		return text
	}
	where := found[random.IntN(len(found))]
	first, last := where[0]+3, where[1]-1 // between 0x and the quote
	lie := bytes.Clone(text)
	lie[first+random.IntN(last-first)] = "0123456789abcdef"[random.IntN(16)]
	return lie
}

// headLies are the ways of lying about heads.
var headLies = []liar{
	// The latest block, whole and with its right hash, in place of the finalized one.
	func(x exchange) (int, []byte) {
		return x.pass(bytes.ReplaceAll(x.request, []byte(`"finalized"`), []byte(`"latest"`)))
	},
	func(x exchange) (int, []byte) { return ahead(x, 1+x.random.Uint64N(6), "finalized") },
	func(x exchange) (int, []byte) { return ahead(x, 900_000, "finalized", "latest") },
	func(x exchange) (int, []byte) { return ahead(x, 1000+x.random.Uint64N(2_000_000), "latest") },
}

// lieAboutHeads returns a node that lies about its heads in one way, in at most so
// many answers, and is honest in all others: the chain is far ahead, or a block that
// is not final yet is called final.
func lieAboutHeads(way uint64, answers int64) liar {
	left := &atomic.Int64{}
	left.Store(answers)
	lie := headLies[way%uint64(len(headLies))]
	return func(x exchange) (int, []byte) {
		asksForHeads := bytes.Contains(x.request, []byte(`"finalized"`)) || bytes.Contains(x.request, []byte(`"latest"`))
		if !asksForHeads || left.Add(-1) < 0 {
			return x.pass(x.request)
		}
		return lie(x)
	}
}

// ahead adds blocks to the number of the named heads, and a second a block to
// the time where it is only a few.
func ahead(x exchange, by uint64, tags ...string) (int, []byte) {
	status, answer := x.pass(x.request)
	calls, _ := list(x.request)
	wanted := map[string]bool{}
	for _, call := range calls {
		for _, tag := range tags {
			if bytes.Contains(call["params"], []byte(`"`+tag+`"`)) {
				wanted[string(call["id"])] = true
			}
		}
	}
	answers, batch := list(answer)
	for _, a := range answers {
		var block map[string]json.RawMessage
		if !wanted[string(a["id"])] || json.Unmarshal(a["result"], &block) != nil {
			continue
		}
		block["number"] = plus(block["number"], by)
		if by < 10 {
			block["timestamp"] = plus(block["timestamp"], by)
		}
		a["result"] = marshal(block)
	}
	if len(answers) == 1 && !batch {
		return status, marshal(answers[0])
	}
	return status, marshal(answers)
}

// list reads a call or a batch of them, or the answers to them.
func list(text []byte) (calls []map[string]json.RawMessage, batch bool) {
	if json.Unmarshal(text, &calls) == nil {
		return calls, true
	}
	var one map[string]json.RawMessage
	if json.Unmarshal(text, &one) != nil {
		return nil, false
	}
	return []map[string]json.RawMessage{one}, false
}

// plus adds to a quantity; what is none stays.
func plus(quantity json.RawMessage, by uint64) json.RawMessage {
	n, err := strconv.ParseUint(strings.Trim(string(quantity), `"`), 0, 64)
	if err != nil {
		return quantity
	}
	return json.RawMessage(`"` + hexNumber(n+by) + `"`)
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was JSON
	}
	return text
}

// lieAsFacilitator lies as one may that wants to harm seller or buyer.
func lieAsFacilitator(x exchange) (int, []byte) {
	network, payer := parties(x.request)
	if x.path == "/verify" {
		return 200, marshal(map[string]any{"isValid": x.random.IntN(2) == 0, "invalidReason": "insufficient_funds", "payer": payer})
	}
	if x.path != "/settle" {
		return x.pass(x.request)
	}
	word := fmt.Sprintf("0x%064x", x.random.Uint64())
	switch x.random.IntN(5) {
	case 0: // nothing moved
		return 200, settled(true, "", word, network, payer)
	case 1: // nothing moved, and the buyer may try again
		return 200, settled(false, "insufficient_funds", "", network, payer)
	case 2: // moved, and denied
		x.pass(x.request)
		return 200, settled(false, "invalid_exact_evm_nonce_already_used", "", network, payer)
	case 3: // moved, and answered for another network
		x.pass(x.request)
		return 200, settled(true, "", word, "eip155:1", payer)
	default: // moved, and answered with another transaction and payer
		x.pass(x.request)
		return 200, settled(true, "", word, network, "0x"+word[26:])
	}
}

// believes is a facilitator that calls every payment valid, also one whose signature is
// broken or whose authorization is used, and settles honestly. Copies with a broken signature
// must not keep the good one out all the same.
func believes(x exchange) (int, []byte) {
	if x.path != "/verify" {
		return x.pass(x.request)
	}
	_, payer := parties(x.request)
	return 200, marshal(map[string]any{"isValid": true, "payer": payer})
}

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

// latestBroadcast is the longest time by which a broadcast is late, some blocks.
const latestBroadcast = 4 * time.Second

// broadcaster is a facilitator that sends the transaction, at once or some
// blocks later, and answers anything but a yes: any text, with or without a
// hash, with any status, or nothing. None of its answers reports that nothing
// was sent: while a transfer is under way, such a report cannot be told apart
// from a correct one.
func broadcaster(x exchange) (int, []byte) {
	if x.path != "/settle" {
		return x.pass(x.request)
	}
	transaction := []string{"", fmt.Sprintf("0x%064x", x.random.Uint64()), "0x", "pending"}[x.random.IntN(4)]
	switch x.random.IntN(4) {
	case 0: // it is in a block before the answer, which may name it
		_, answer := x.pass(x.request)
		var settled struct{ Transaction string }
		if json.Unmarshal(answer, &settled) == nil && x.random.IntN(2) == 0 {
			transaction = settled.Transaction
		}
	case 1: // it waits for its block
		x.later(0)
	default:
		x.later(time.Duration(x.random.Int64N(int64(latestBroadcast))))
	}
	text := oddly(x.random, openTexts[x.random.IntN(len(openTexts))])
	status := []int{200, 200, 200, 200, 400, 500, 502}[x.random.IntN(7)]
	switch x.random.IntN(12) {
	case 0:
		<-x.gone
		return 0, nil
	case 1:
		return status, []byte(text)
	case 2:
		return status, marshal(map[string]string{"error": text})
	}
	network, payer := parties(x.request)
	return status, settled(false, text, transaction, network, payer)
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

func settled(success bool, reason, transaction, network, payer string) []byte {
	return marshal(map[string]any{"success": success, "errorReason": reason, "transaction": transaction, "network": network, "payer": payer})
}

// parties returns the network of a request to a facilitator, as its version spells
// it, and the payer.
func parties(request []byte) (network, payer string) {
	var call struct {
		PaymentRequirements struct{ Network string }
		PaymentPayload      struct {
			Payload struct {
				Authorization struct{ From string }
			}
		}
	}
	_ = json.Unmarshal(request, &call) // a request that cannot be read is lied to as well
	return call.PaymentRequirements.Network, call.PaymentPayload.Payload.Authorization.From
}

package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"
)

// Ways of lying about heads.
var headLies = []func(Exchange) (int, []byte){
	latestIsFinal,
	func(x Exchange) (int, []byte) { return ahead(x, 1+x.Random.Uint64N(6), "finalized") },
	func(x Exchange) (int, []byte) { return ahead(x, 900_000, "finalized", "latest") },
	func(x Exchange) (int, []byte) { return ahead(x, 1000+x.Random.Uint64N(2_000_000), "latest") },
}

// Heads returns a node that lies about its heads in one way, in at most so many
// answers, and is honest in all others: the chain is far ahead, or a block that
// is not final yet is called final.
func Heads(way uint64, answers int64) Liar {
	left := &atomic.Int64{}
	left.Store(answers)
	lie := headLies[way%uint64(len(headLies))]
	return func(x Exchange) (int, []byte) {
		asksForHeads := bytes.Contains(x.Request, []byte(`"finalized"`)) || bytes.Contains(x.Request, []byte(`"latest"`))
		if !asksForHeads || left.Add(-1) < 0 {
			return x.Pass(x.Request)
		}
		return lie(x)
	}
}

// latestIsFinal answers with the latest block to a request for the finalized one:
// a whole block with its right hash.
func latestIsFinal(x Exchange) (int, []byte) {
	return x.Pass(bytes.ReplaceAll(x.Request, []byte(`"finalized"`), []byte(`"latest"`)))
}

// ahead adds blocks to the number of the named heads, and a second a block to
// the time where it is only a few.
func ahead(x Exchange, by uint64, tags ...string) (int, []byte) {
	status, answer := x.Pass(x.Request)
	wanted := map[string]bool{}
	for _, q := range list(x.Request) {
		for _, tag := range tags {
			if bytes.Contains(q["params"], []byte(`"`+tag+`"`)) {
				wanted[string(q["id"])] = true
			}
		}
	}
	answers := list(answer)
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
	if len(answers) == 1 && !bytes.HasPrefix(bytes.TrimSpace(answer), []byte("[")) {
		return status, marshal(answers[0])
	}
	return status, marshal(answers)
}

// list reads a call or a batch of them, or the answers to them.
func list(text []byte) (calls []map[string]json.RawMessage) {
	if json.Unmarshal(text, &calls) == nil {
		return calls
	}
	var one map[string]json.RawMessage
	if json.Unmarshal(text, &one) != nil {
		return nil
	}
	return []map[string]json.RawMessage{one}
}

// plus adds to a quantity; what is none stays.
func plus(quantity json.RawMessage, by uint64) json.RawMessage {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.Trim(string(quantity), `"`), "0x"), 16, 64)
	if err != nil {
		return quantity
	}
	return json.RawMessage(`"0x` + strconv.FormatUint(n+by, 16) + `"`)
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was JSON
	}
	return text
}

package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
)

// quantities are the 0x-strings in a text of JSON.
var quantities = regexp.MustCompile(`"0x[0-9a-fA-F]+"`)

// Node lies as a node of a chain may: it changes one digit of one value in its
// answer, or answers that there is nothing.
func Node(x Exchange) (int, []byte) {
	status, answer := x.Pass(x.Request)
	var envelope map[string]json.RawMessage
	if x.Random.IntN(8) > 0 || json.Unmarshal(answer, &envelope) != nil { // a batch is a list
		return status, flip(answer, x.Random)
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
	at := first + random.IntN(last-first)
	digit := "0123456789abcdef"[random.IntN(16)]
	lie := bytes.Clone(text)
	lie[at] = digit
	return lie
}

// Facilitator lies as a facilitator may that wants to harm seller or buyer.
func Facilitator(x Exchange) (int, []byte) {
	if x.Path == "/verify" {
		return 200, []byte(`{"isValid":` + []string{"true", "false"}[x.Random.IntN(2)] + `,"invalidReason":"insufficient_funds","payer":"` + payer(x.Request) + `"}`)
	}
	if x.Path != "/settle" {
		return x.Pass(x.Request)
	}
	word := fmt.Sprintf("0x%064x", x.Random.Uint64())
	network := network(x.Request)
	switch x.Random.IntN(5) {
	case 0: // nothing moved
		return 200, settled(true, "", word, network, payer(x.Request))
	case 1: // nothing moved, and the buyer may try again
		return 200, settled(false, "insufficient_funds", "", network, payer(x.Request))
	case 2: // moved, and denied
		x.Pass(x.Request)
		return 200, settled(false, "invalid_exact_evm_nonce_already_used", "", network, payer(x.Request))
	case 3: // moved, and answered for another network
		x.Pass(x.Request)
		return 200, settled(true, "", word, "eip155:1", payer(x.Request))
	default: // moved, and answered with another transaction and payer
		x.Pass(x.Request)
		return 200, settled(true, "", word, network, "0x"+word[26:])
	}
}

func settled(success bool, reason, transaction, network, payer string) []byte {
	return marshal(map[string]any{"success": success, "errorReason": reason, "transaction": transaction, "network": network, "payer": payer})
}

// network is that of a request to a facilitator, as its version spells it.
func network(request []byte) string {
	var call struct {
		Requirements struct{ Network string } `json:"paymentRequirements"`
	}
	_ = json.Unmarshal(request, &call) // a request that cannot be read is lied to as well
	return call.Requirements.Network
}

func payer(request []byte) string {
	var call struct {
		Payload struct {
			Payload struct {
				Authorization struct{ From string } `json:"authorization"`
			} `json:"payload"`
		} `json:"paymentPayload"`
	}
	_ = json.Unmarshal(request, &call) // then it is empty
	return call.Payload.Payload.Authorization.From
}

package httpapi

import "strings"

// answers returns the output schema of a tool that answers with an object of one of these schemas,
// or with an errorBody.
func answers(schemas ...string) string {
	return `{"type":"object","anyOf":[` + strings.Join(append(schemas, errorOutput), ",") + `]}`
}

// The objects that tools answer with, as JSON Schema.
const (
	errorOutput = `{"required":["error","code","reason","retryable"],"properties":{"error":{"type":"string"},` +
		`"code":{"type":"integer"},"reason":{"type":"string"},"retryable":{"type":"boolean"},` +
		`"retryAfterSeconds":{"type":"integer"},"field":{"type":"string"}}}`
	challengeOutput = `{"required":["x402Version","accepts"],"properties":{"x402Version":{"type":"integer"},` +
		`"error":{"type":"string"},"accepts":{"type":"array","items":{"type":"object"}}}}`
	soldOutput = `{"required":["verdict","proof","hash"],"properties":{` +
		`"verdict":{"type":"string","description":"what the receipt proves"},` +
		`"proof":{"enum":["link","inline","none"]},` +
		`"hash":{"type":"string","pattern":"^[0-9a-f]{64}$","description":"SHA-256 of the whole answer"},` +
		`"link":{"type":"string","description":"the whole answer with its proof, free"}}}`
	checkedOutput = `{"required":["valid","note"],"properties":{"valid":{"type":"boolean"},` +
		`"reason":{"type":"string"},"kind":{"type":"string"},"keyId":{"type":"string"},` +
		`"proven":{"type":"array","items":{"type":"object"}},` +
		`"attested":{"type":"array","items":{"type":"object"}},"note":{"type":"string"}}}`
	quoteOutput = `{"required":["prices","salesOpen"],"properties":{"salesOpen":{"type":"boolean"},` +
		`"prices":{"type":"array","items":{"type":"object","required":["tool","usd","amount","asset","network",` +
		`"payTo"]}},"closed":{"type":"object"}}}`
	chainsOutput = `{"required":["chains"],"properties":{"chains":{"type":"array","items":{"type":"object",` +
		`"required":["name","id","finalized"],"properties":{"name":{"type":"string"},"id":{"type":"string"},` +
		`"finalized":{"type":["string","null"]},"tokens":{"type":"array","items":{"type":"object"}}}}}}}`
	statusOutput = `{"required":["status"],"properties":{` +
		`"status":{"enum":["unknown","pending","included","final"]},"block":{"type":"string"},` +
		`"finalInSeconds":{"type":"integer"},"knownOn":{"type":"string"}}}`
)

package verification

import (
	"bytes"
	"encoding/json"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

const amountDecimal = "amountDecimal"

// AtomicAmount returns a request about a transfer in which amountDecimal, a decimal amount of a
// token that is known on the chain (CAIP-2), stands as amount in atomic units. It is for tools,
// whose callers are models; the answer names the atomic units. A body without the member, or whose
// transfer cannot be read, stays as it is. Every error is a *strictjson.Error.
func AtomicAmount(chain string, body []byte) ([]byte, error) {
	if !bytes.Contains(body, []byte(amountDecimal)) {
		return body, nil
	}
	var request, transfer map[string]json.RawMessage
	if err := strictjson.Unmarshal(body, &request, strictjson.Rules{AllowNull: true}); err != nil {
		return nil, err
	}
	err := strictjson.Unmarshal(request["transfer"], &transfer, strictjson.Rules{AllowNull: true})
	if err != nil || transfer[amountDecimal] == nil {
		return body, nil //nolint:nilerr // what is wrong is found when the request is read
	}
	fault := func(reason string) error {
		return &strictjson.Error{Pointer: "/transfer/" + amountDecimal, Reason: reason}
	}
	var token, decimal string
	if json.Unmarshal(transfer[amountDecimal], &decimal) != nil {
		return nil, fault("must be a string")
	}
	_ = json.Unmarshal(transfer["token"], &token) // a token that is none is not known
	known, ok := receipt.KnownToken(chain, token)
	switch {
	case transfer["amount"] != nil || transfer["minAmount"] != nil:
		return nil, fault("stands beside amount or minAmount")
	case !ok:
		return nil, fault("is for tokens of list_chains; of others give amount, in atomic units")
	}
	atomic, err := known.Atomic(decimal)
	if err != nil {
		return nil, fault(err.Error())
	}
	delete(transfer, amountDecimal)
	transfer["amount"] = json.RawMessage(`"` + atomic + `"`)
	if request["transfer"], err = json.Marshal(transfer); err != nil {
		return nil, fault("cannot be read")
	}
	return json.Marshal(request) //nolint:wrapcheck // of members that were read
}

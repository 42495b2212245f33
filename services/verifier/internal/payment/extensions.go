package payment

import (
	"encoding/json"
	"regexp"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// Extensions are protocol extensions by name.
type Extensions map[string]json.RawMessage

// ExtensionIdentifier lets a buyer name what he pays for, so that paying again
// for the same name gives the first answer (x402 extension payment-identifier).
const ExtensionIdentifier = "payment-identifier"

// identifierForm is the form of an identifier that the extension's schema has.
var identifierForm = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`)

// reasonIdentifier says that an identifier is not of that form.
const reasonIdentifier = "invalid_payment_identifier"

// IdentifierExtension advertises that identifiers are understood and optional.
func IdentifierExtension() json.RawMessage {
	return json.RawMessage(`{"info":{"required":false},"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema",` +
		`"type":"object","properties":{"required":{"type":"boolean"},` +
		`"id":{"type":"string","minLength":16,"maxLength":128,"pattern":"^[a-zA-Z0-9_-]+$"}},"required":["required"]}}`)
}

// identifier reads the buyer's identifier, "" when he gave none.
func (e Extensions) identifier() (string, error) {
	raw, ok := e[ExtensionIdentifier]
	if !ok {
		return "", nil
	}
	var extension struct {
		Info struct {
			ID *string `json:"id"`
		} `json:"info"`
	}
	if err := strictjson.Unmarshal(raw, &extension, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return "", invalid(reasonIdentifier)
	}
	id := extension.Info.ID
	if id == nil {
		return "", nil
	}
	if !identifierForm.MatchString(*id) {
		return "", invalid(reasonIdentifier)
	}
	return *id, nil
}

// over gives what the buyer echoed, with our own words where the extension is
// ours and its content not the buyer's.
func (e Extensions) over(echoed Extensions) Extensions {
	if len(echoed) == 0 {
		return nil
	}
	result := make(Extensions, len(echoed))
	for name, theirs := range echoed {
		if ours, ok := e[name]; ok && name != ExtensionIdentifier {
			theirs = ours
		}
		result[name] = theirs
	}
	return result
}

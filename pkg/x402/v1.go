package x402

import "encoding/json"

// HTTP headers of version 1; each holds base64 of a JSON object. The challenge
// of version 1 is the body of the 402 answer.
const (
	// HeaderPaymentV1 is on a paid request: PayloadV1.
	HeaderPaymentV1 = "X-PAYMENT"
	// HeaderPaymentResponseV1 is on a paid answer: SettleResponse with the
	// network's version 1 name.
	HeaderPaymentResponseV1 = "X-PAYMENT-RESPONSE"
)

// RequirementsV1 is one way to pay. Version 1 clients check it strictly:
// Resource must be a URL, Description and MimeType strings, and OutputSchema an
// object or absent, never null.
type RequirementsV1 struct {
	Scheme            string          `json:"scheme"`
	Network           string          `json:"network"`
	MaxAmountRequired string          `json:"maxAmountRequired"`
	Resource          string          `json:"resource"`
	Description       string          `json:"description"`
	MimeType          string          `json:"mimeType"`
	PayTo             string          `json:"payTo"`
	MaxTimeoutSeconds int             `json:"maxTimeoutSeconds"`
	Asset             string          `json:"asset"`
	OutputSchema      json.RawMessage `json:"outputSchema,omitempty"`
	Extra             map[string]any  `json:"extra,omitempty"`
}

// PaymentRequiredV1 is the challenge, a 402 answer's body or part of it.
type PaymentRequiredV1 struct {
	X402Version int              `json:"x402Version"`
	Error       string           `json:"error"`
	Accepts     []RequirementsV1 `json:"accepts"`
}

// PayloadV1 is what a buyer sends in HeaderPaymentV1.
type PayloadV1 struct {
	X402Version int          `json:"x402Version"`
	Scheme      string       `json:"scheme"`
	Network     string       `json:"network"`
	Payload     ExactPayload `json:"payload"`
}

package x402

import "encoding/json"

// The protocol versions.
const (
	V1 = 1
	V2 = 2
)

// SchemeExact is the scheme that moves exactly the required amount.
const SchemeExact = "exact"

// HTTP headers of version 2; each holds base64 of a JSON object (see Encode).
const (
	// HeaderPaymentRequired is on a 402 answer: PaymentRequired.
	HeaderPaymentRequired = "PAYMENT-REQUIRED"
	// HeaderPaymentSignature is on a paid request: Payload.
	HeaderPaymentSignature = "PAYMENT-SIGNATURE"
	// HeaderPaymentResponse is on a paid answer: SettleResponse.
	HeaderPaymentResponse = "PAYMENT-RESPONSE"
)

// PaymentRequired is the challenge of a 402 answer.
type PaymentRequired struct {
	X402Version int                        `json:"x402Version"`
	Error       string                     `json:"error,omitempty"`
	Resource    Resource                   `json:"resource"`
	Accepts     []Requirements             `json:"accepts"`
	Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
}

// Resource is what is paid for. Buyers send it back unsigned.
type Resource struct {
	URL         string   `json:"url"`
	Description string   `json:"description,omitempty"`
	MimeType    string   `json:"mimeType,omitempty"`
	ServiceName string   `json:"serviceName,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	IconURL     string   `json:"iconUrl,omitempty"`
}

// Requirements is one way to pay.
type Requirements struct {
	Scheme string `json:"scheme"`
	// Network is a CAIP-2 chain id, "eip155:8453".
	Network string `json:"network"`
	// Amount is in atomic units of the asset, decimal.
	Amount string `json:"amount"`
	// Asset is the address of the token, PayTo that of the payee.
	Asset             string `json:"asset"`
	PayTo             string `json:"payTo"`
	MaxTimeoutSeconds int    `json:"maxTimeoutSeconds"`
	// Extra holds the token's EIP-712 domain as "name" and "version"; a buyer
	// may add members.
	Extra map[string]any `json:"extra,omitempty"`
}

// Payload is what a buyer sends in HeaderPaymentSignature.
type Payload struct {
	X402Version int          `json:"x402Version"`
	Resource    *Resource    `json:"resource,omitempty"`
	Accepted    Requirements `json:"accepted"`
	Payload     ExactPayload `json:"payload"`
	// Extensions are echoed from the challenge, unsigned.
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// ExactPayload is a signed EIP-3009 authorization, the same in both versions.
type ExactPayload struct {
	// Signature is 0x-hex: 65 bytes of an ordinary account, more of a contract
	// wallet (ERC-1271, ERC-6492).
	Signature     string        `json:"signature"`
	Authorization Authorization `json:"authorization"`
}

// Authorization is the signed part of a payment: the parameters of
// transferWithAuthorization (EIP-3009). Nothing in it names URL or body.
type Authorization struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Value is in atomic units, decimal.
	Value string `json:"value"`
	// ValidAfter and ValidBefore are Unix seconds, decimal; both are exclusive.
	ValidAfter  string `json:"validAfter"`
	ValidBefore string `json:"validBefore"`
	// Nonce is 32 bytes in 0x-hex, chosen at random by the payer.
	Nonce string `json:"nonce"`
}

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
	// HeaderPaymentResponse is on the answer after a settlement, whatever came of it: SettleResponse.
	HeaderPaymentResponse = "PAYMENT-RESPONSE"
)

// PaymentRequired is the challenge of version 2, in which a seller asks for a payment.
type PaymentRequired struct {
	X402Version int                        `json:"x402Version"`
	Error       string                     `json:"error,omitempty"`
	Resource    Resource                   `json:"resource"`
	Accepts     []Requirements             `json:"accepts"`
	Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
}

// Resource is what is paid for. Buyers may send it back, unsigned.
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

// Payload is what a buyer sends to pay by version 2.
type Payload struct {
	X402Version int          `json:"x402Version"`
	Resource    *Resource    `json:"resource,omitempty"`
	Accepted    Requirements `json:"accepted"`
	Payload     ExactPayload `json:"payload"`
	// Extensions are those of the challenge, with what the buyer adds to them, unsigned.
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// ExactPayload is a signed EIP-3009 authorization, the same in both versions.
type ExactPayload struct {
	// Signature is 0x-hex: 65 bytes of an ordinary account, any number of a contract
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
	// Nonce is 32 bytes in 0x-hex, chosen by the payer.
	Nonce string `json:"nonce"`
}

// HTTP headers of version 1; each holds base64 of a JSON object. The challenge
// of version 1 is in the body of the 402 answer.
const (
	// HeaderPaymentV1 is on a paid request: PayloadV1.
	HeaderPaymentV1 = "X-PAYMENT"
	// HeaderPaymentResponseV1 is on the answer after a settlement, whatever came of it:
	// SettleResponse with the network's version 1 name.
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

// PaymentRequiredV1 is the challenge of version 1, a 402 answer's body or part of it.
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

// Request is the body of a facilitator's /verify and /settle. The two objects
// have the shapes of X402Version: Payload and Requirements, or PayloadV1 and
// RequirementsV1.
type Request struct {
	X402Version         int             `json:"x402Version"`
	PaymentPayload      json.RawMessage `json:"paymentPayload"`
	PaymentRequirements json.RawMessage `json:"paymentRequirements"`
}

// VerifyResponse is a facilitator's answer to /verify. IsValid is nil when the
// answer does not contain it, which must never be read as true.
type VerifyResponse struct {
	IsValid        *bool  `json:"isValid"`
	InvalidReason  string `json:"invalidReason,omitempty"`
	InvalidMessage string `json:"invalidMessage,omitempty"`
	Payer          string `json:"payer,omitempty"`
}

// SettleResponse is a facilitator's answer to /settle, and what a seller tells
// the buyer of the settlement. Success is nil when the answer does not
// contain it, which must never be read as true nor as false.
type SettleResponse struct {
	Success      *bool  `json:"success"`
	ErrorReason  string `json:"errorReason,omitempty"`
	ErrorMessage string `json:"errorMessage,omitempty"`
	// Transaction is the hash on the chain, "" when there is none.
	Transaction string `json:"transaction"`
	// Amount is what was moved, in atomic units; "" when the answer does not contain it.
	Amount     string                     `json:"amount,omitempty"`
	Network    string                     `json:"network"`
	Payer      string                     `json:"payer,omitempty"`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
	// Extra is what a scheme or a seller adds.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// Supported is a facilitator's answer to /supported.
type Supported struct {
	Kinds      []Kind              `json:"kinds"`
	Extensions []string            `json:"extensions"`
	Signers    map[string][]string `json:"signers"`
}

// Kind is one kind of payment that a facilitator handles.
type Kind struct {
	X402Version int            `json:"x402Version"`
	Scheme      string         `json:"scheme"`
	Network     string         `json:"network"`
	Extra       map[string]any `json:"extra,omitempty"`
}

// Reasons in VerifyResponse and SettleResponse. The set is open: facilitators send
// others.
const (
	ReasonInsufficientFunds  = "insufficient_funds"
	ReasonInvalidSignature   = "invalid_exact_evm_payload_signature"
	ReasonNonceAlreadyUsed   = "invalid_exact_evm_nonce_already_used"
	ReasonRecipientMismatch  = "invalid_exact_evm_payload_recipient_mismatch"
	ReasonValueMismatch      = "invalid_exact_evm_payload_authorization_value_mismatch"
	ReasonValidAfter         = "invalid_exact_evm_payload_authorization_valid_after"
	ReasonValidBefore        = "invalid_exact_evm_payload_authorization_valid_before"
	ReasonInvalidNetwork     = "invalid_network"
	ReasonInvalidPayload     = "invalid_payload"
	ReasonInvalidRequirement = "invalid_payment_requirements"
	ReasonInvalidVersion     = "invalid_x402_version"
	ReasonUnsupportedScheme  = "unsupported_scheme"
	ReasonSettlementPending  = "settlement_pending"
	ReasonUnexpectedVerify   = "unexpected_verify_error"
	ReasonUnexpectedSettle   = "unexpected_settle_error"
	ReasonUnknown            = "unknown_error"
)

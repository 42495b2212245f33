package x402

import "encoding/json"

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

// SettleResponse is a facilitator's answer to /settle, and what a seller sends
// the buyer in HeaderPaymentResponse. Success is nil when the answer does not
// contain it, which must never be read as true nor as false.
type SettleResponse struct {
	Success      *bool  `json:"success"`
	ErrorReason  string `json:"errorReason,omitempty"`
	ErrorMessage string `json:"errorMessage,omitempty"`
	// Transaction is the hash on the chain, "" when there is none.
	Transaction string `json:"transaction"`
	// Amount is what was moved, in atomic units; most facilitators leave it out.
	Amount     string                     `json:"amount,omitempty"`
	Network    string                     `json:"network"`
	Payer      string                     `json:"payer,omitempty"`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
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

// Reasons of refusals that sellers and buyers decide on. The set is open:
// facilitators send others.
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
	ReasonInvalidScheme      = "invalid_scheme"
	ReasonInvalidVersion     = "invalid_x402_version"
	ReasonUnsupportedScheme  = "unsupported_scheme"
	ReasonSettlementPending  = "settlement_pending"
	ReasonUnexpectedVerify   = "unexpected_verify_error"
	ReasonUnexpectedSettle   = "unexpected_settle_error"
	ReasonUnknown            = "unknown_error"
)

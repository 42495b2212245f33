package verification

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/x402"
)

// wirePayment is a question about an x402 payment by what its two sides said of it: the seller's
// PAYMENT-RESPONSE, and the PAYMENT-SIGNATURE that the buyer had sent. Each is the header's value, or
// the object in it, as the transport for MCP has it. The seller's side may be the signed receipt of
// the extension offer-receipt instead ([issuedReceipt]).
type wirePayment struct {
	Payment *struct {
		Response json.RawMessage `json:"response"`
		Sent     json.RawMessage `json:"sent"`
	} `json:"payment"`
	Expectations json.RawMessage `json:"expectations"`
	// What the payment stands in place of, only to be refused by its name.
	TransactionHash json.RawMessage `json:"transactionHash"`
	Transfer        json.RawMessage `json:"transfer"`
}

// ExpandPayment returns the body of a question about a transfer that asks whether an x402 payment
// of the scheme exact (EIP-3009) was made, and the CAIP-2 id of its chain. A body that is no object
// that strictjson accepts, or has no member payment, is returned as it is, without a chain. Every
// error is a *strictjson.Error.
//
// The response says on which chain and by which transaction; what was sent says who was to be paid
// how much of which token by which authorization. So the evidence is about this very payment, and
// not about another one of the payer in the same transaction. Signatures are not checked: what was
// sent may be without its own.
func ExpandPayment(body []byte) (expanded []byte, chain string, err error) {
	var names struct {
		Payment json.RawMessage `json:"payment"`
	}
	rules := strictjson.Rules{AllowUnknown: true, AllowNull: true}
	if !bytes.Contains(body, []byte(`"payment"`)) || strictjson.Unmarshal(body, &names, rules) != nil ||
		names.Payment == nil {
		return body, "", nil // whose faults its own rules name
	}
	var wire wirePayment
	if err := strictjson.Unmarshal(body, &wire, strictjson.Rules{AllowNull: true}); err != nil {
		return nil, "", err
	}
	if wire.Payment == nil {
		return nil, "", &strictjson.Error{Pointer: "/payment", Reason: "must not be null"}
	}
	for _, beside := range []struct {
		name string
		text json.RawMessage
	}{{"transactionHash", wire.TransactionHash}, {"transfer", wire.Transfer}} {
		if beside.text != nil {
			return nil, "", &strictjson.Error{Pointer: "/" + beside.name, Reason: "must not be given beside payment"}
		}
	}
	settled, err := readResponse(wire.Payment.Response)
	if err != nil {
		return nil, "", err
	}
	var sent x402.Payload
	if err := readSide("/payment/sent", wire.Payment.Sent, &sent); err != nil {
		return nil, "", err
	}
	fault := func(side, reason string) ([]byte, string, error) {
		return nil, "", &strictjson.Error{Pointer: "/payment/" + side, Reason: reason}
	}
	a := sent.Payload.Authorization
	switch {
	case settled.Success == nil || !*settled.Success:
		return fault("response", "is of a payment that was not settled")
	case sent.X402Version != x402.V2 || sent.Accepted.Scheme != x402.SchemeExact || a.Nonce == "":
		return fault("sent", "is no payment of version 2 and the scheme exact (EIP-3009)")
	case settled.Network != sent.Accepted.Network:
		return fault("response", "is of another network than what was sent")
	case settled.Payer != "" && !strings.EqualFold(settled.Payer, a.From):
		return fault("response", "is of another payer than what was sent")
	case !strings.EqualFold(a.To, sent.Accepted.PayTo) || a.Value != sent.Accepted.Amount:
		return fault("sent", "was signed for other terms than it accepts")
	}
	if _, ok := x402.ChainID(settled.Network); !ok {
		return fault("response", "is of no network of the form eip155:8453")
	}
	question := struct {
		TransactionHash string                   `json:"transactionHash"`
		Transfer        receipt.ExpectedTransfer `json:"transfer"`
		Expectations    json.RawMessage          `json:"expectations,omitempty"`
	}{
		TransactionHash: settled.Transaction, Expectations: wire.Expectations,
		Transfer: receipt.ExpectedTransfer{
			Token: sent.Accepted.Asset, To: a.To, Amount: a.Value,
			Authorization: &receipt.Authorization{Authorizer: a.From, Nonce: a.Nonce},
		},
	}
	expanded, err = json.Marshal(question)
	if err != nil {
		return nil, "", &strictjson.Error{Pointer: "/payment", Reason: "cannot be read"}
	}
	if _, err := ParseTransferRequest(expanded); err != nil {
		return nil, "", ofSide(err)
	}
	return expanded, settled.Network, nil
}

// issuedReceipt is the signed receipt of the x402 extension offer-receipt, whose payload is beside
// the signature (format eip712) or in it (jws, RFC 7515 section 7.1). Its transaction is optional, and
// left out unless the seller sets includeTxHash (specs/extensions/extension-offer-and-receipt.md
// section 5.2; @x402/extensions 2.27.0).
type issuedReceipt struct {
	Format    string          `json:"format"`
	Payload   json.RawMessage `json:"payload"`
	Signature string          `json:"signature"`
}

// readResponse reads the seller's side: a settle response, or a receipt of the extension, which becomes
// one with Success. Its signature is not checked, as the header has none either: the chain decides.
func readResponse(text json.RawMessage) (settled x402.SettleResponse, err error) {
	const pointer = "/payment/response"
	if err = readSide(pointer, text, &settled); err != nil || settled.Success != nil {
		return settled, err
	}
	var issued issuedReceipt
	if err = readSide(pointer, text, &issued); err != nil || issued.Format == "" {
		return settled, err
	}
	fault := func(reason string) (x402.SettleResponse, error) {
		return x402.SettleResponse{}, &strictjson.Error{Pointer: pointer, Reason: reason}
	}
	payload := []byte(issued.Payload)
	switch issued.Format {
	case "eip712":
	case "jws":
		parts := strings.Split(issued.Signature, ".")
		if len(parts) != 3 {
			return fault("is a receipt whose signature is no JWS")
		}
		if payload, err = base64.RawURLEncoding.Strict().DecodeString(parts[1]); err != nil {
			return fault("is a receipt whose signature is no JWS")
		}
	default:
		return fault("is a receipt of another format than eip712 and jws")
	}
	if err = x402.DecodeObject(payload, &settled); err != nil {
		return fault("is a receipt whose payload cannot be read")
	}
	if settled.Transaction == "" {
		return fault("is a receipt that names no transaction: ask with PAYMENT-RESPONSE")
	}
	settled.Success = new(true)
	return settled, nil
}

// readSide reads what one side said: the value of a header, or an object.
func readSide(pointer string, text json.RawMessage, into any) error {
	if text == nil || string(text) == "null" {
		return &strictjson.Error{Pointer: pointer, Reason: "is required"}
	}
	var err error
	if text[0] == '"' {
		var header string
		if err = json.Unmarshal(text, &header); err == nil {
			err = x402.Decode(header, into)
		}
	} else {
		err = x402.DecodeObject(text, into)
	}
	if err == nil {
		return nil
	}
	reason := "is neither the value of the header nor its object"
	var malformed *strictjson.Error
	if errors.As(err, &malformed) {
		reason = "cannot be read: " + malformed.Error()
	}
	return &strictjson.Error{Pointer: pointer, Reason: reason}
}

// ofSide returns a fault of the question as one of the side that it came from.
func ofSide(err error) error {
	var malformed *strictjson.Error
	if !errors.As(err, &malformed) || strings.HasPrefix(malformed.Pointer, "/expectations") {
		return err
	}
	side := "/payment/sent"
	if malformed.Pointer == "/transactionHash" {
		side = "/payment/response"
	}
	return &strictjson.Error{Pointer: side, Reason: strings.TrimPrefix(malformed.Pointer, "/") + " " + malformed.Reason}
}

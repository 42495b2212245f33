package payment

import "strings"

// beforeBroadcast are the reasons that end a payment as not settled, each with
// the sources that document it. A facilitator returns them only for what it finds before
// it sends a transaction: when it checks the payment once more in /settle, or when
// the transfer reverts while it is simulated or its gas is estimated, which sends
// nothing. The list is closed: what is not on it may have been returned after a
// broadcast, and leaves the outcome unknown, whatever it sounds like.
//
// The reasons stand without the prefixes that plain takes away. Sources:
//
//	spec   x402 specification v1 and v2, error codes
//	ts     x402-foundation/x402, typescript/packages/mechanisms/evm/src/exact/facilitator:
//	       eip3009.ts, eip3009-utils.ts, errors.ts
//	go     x402-foundation/x402, go/mechanisms/evm/exact/facilitator: eip3009.go, errors.go
//	cdp    Coinbase CDP API v2, X402SettleErrorReason of @coinbase/cdp-sdk
//	rs     x402-rs, FacilitatorErrorReason
//
// Not on it, though they look as if they were: transaction_failed (ts: any
// exception, a receipt that did not come in time too), failed_to_execute_transfer
// and failed_to_get_receipt (go: perhaps after the broadcast), transfer_event_mismatch
// and failed_onchain (mined), nonce_already_used and invalid_transaction_state
// (perhaps by this payment), smart_wallet_deployment_failed (a transaction was
// made), verification_failed and most failed_to_* (the facilitator's own troubles).
var beforeBroadcast = map[string]string{ //nolint:gosec // reasons, no credentials
	"insufficient_funds":             "spec, cdp, rs: balance read before the transfer",
	"insufficient_balance":           "ts, go: balance, or the simulation's revert",
	"signature":                      "spec, ts, go, cdp: recovered or simulated",
	"missing_signature":              "go: eip3009.go, verify",
	"signature_format":               "go: eip3009.go, verify",
	"failed_to_parse_signature":      "go: eip3009.go, before the transfer is executed",
	"undeployed_smart_wallet":        "ts, go: code of the payer",
	"eip6492_factory_not_allowed":    "ts, go: before the wallet is deployed",
	"authorization_valid_after":      "spec, ts, go, cdp: clock, or the simulation's revert",
	"authorization_valid_before":     "spec, ts, go, cdp: clock, or the simulation's revert",
	"authorization_value":            "ts, go, cdp: compared with the requirements",
	"authorization_value_mismatch":   "spec, ts, go: compared with the requirements",
	"authorization_value_too_low":    "cdp: compared with the requirements",
	"authorization_from_address_kyt": "cdp: screening, before anything is sent",
	"authorization_to_address_kyt":   "cdp: screening, before anything is sent",
	"required_amount":                "go: eip3009.go, verify",
	"recipient_mismatch":             "spec, ts, go: compared with the requirements",
	"network_mismatch":               "ts, go: compared with the requirements",
	"scheme":                         "ts, go: compared with the requirements",
	"payload":                        "go: eip3009.go, verify",
	"missing_eip712_domain":          "ts, go: compared with the requirements",
	"token_name_mismatch":            "ts, go: read after a simulation that failed",
	"token_version_mismatch":         "ts, go: read after a simulation that failed",
	"eip3009_not_supported":          "ts, go: read after a simulation that failed",
	"transaction_simulation_failed":  "ts, go: simulated, not sent",
	"asset_not_deployed_contract":    "ts: code of the token",
	"invalid_scheme":                 "spec, cdp, rs",
	"invalid_network":                "spec, cdp, rs",
	"invalid_payload":                "spec, cdp",
	"invalid_payment_requirements":   "spec, cdp",
	"invalid_x402_version":           "spec, cdp",
	"unsupported_scheme":             "spec, rs",
	"unsupported_payload_type":       "ts, go: no transfer method of this facilitator",
	"kyt_risk_detected":              "cdp: screening, before anything is sent",
	"self_send_not_allowed":          "cdp: compared with the requirements",
	"request_blocked_by_location":    "cdp: before the request is read",
	"amount_too_low":                 "cdp: compared with its minimum",
	"invalid_bazaar_extension":       "cdp: read with the request",
}

// SaysUsed reports whether a reason of a facilitator means that the authorization is used.
func SaysUsed(reason string) bool { return plain(reason) == "nonce_already_used" }

// isEcho reports whether the reason for a refusal of a retried settlement means that the retry
// made no transaction of its own: an earlier one is known, or spent the nonce.
func isEcho(reason string) bool {
	switch plain(reason) {
	case "settlement_pending", "duplicate_settlement", "nonce_already_used":
		return true
	}
	return false
}

// prefixes are put before a reason by some of the facilitators above, the longer
// ones first. One of them is taken away.
var prefixes = []string{"invalid_exact_evm_payload_", "invalid_exact_evm_"}

// plain returns a reason in the spelling of beforeBroadcast: lower case, underscores,
// without its prefix.
func plain(reason string) string {
	reason = strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(reason)))
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(reason, prefix); ok {
			return rest
		}
	}
	return reason
}

// isBeforeBroadcast reports whether a reason means that no transaction was sent.
func isBeforeBroadcast(reason string) bool {
	_, listed := beforeBroadcast[plain(reason)]
	return listed
}

package devnet

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// settleMargin is how long an authorization must still be good, as with the
// official facilitator.
const settleMargin = 6 * time.Second

// Reasons of official facilitators that only a facilitator decides on.
const (
	reasonSimulation  = "invalid_exact_evm_transaction_simulation_failed"
	reasonTransaction = "invalid_transaction_state"
)

// refusal is a reason of the protocol for a refused payment.
type refusal string

func (r refusal) Error() string { return string(r) }

// read is an offer whose terms are right and whose authorization fits them.
type read struct {
	authorization eip3009.Authorization
	signature     []byte
}

func (r read) payer() string {
	if r.authorization.Value == nil {
		return ""
	}
	return r.authorization.From.Hex()
}

func (f *Facilitator) verify(ctx context.Context, o offer, fault error) any {
	p, err := f.read(o, fault)
	if err == nil {
		err = f.judge(ctx, p)
	}
	valid := err == nil
	return x402.VerifyResponse{IsValid: &valid, InvalidReason: f.reason(err, x402.ReasonUnexpectedVerify), Payer: p.payer()}
}

// reason returns the protocol's reason for a fault, "" for none.
func (f *Facilitator) reason(err error, unexpected string) string {
	var r refusal
	switch {
	case err == nil:
		return ""
	case errors.As(err, &r):
		return string(r)
	}
	f.log.Error("verify the payment", "error", err)
	return unexpected
}

// read refuses what is wrong with an offer whatever the chain and the time.
func (f *Facilitator) read(o offer, fault error) (read, error) {
	if errors.Is(fault, errVersion) {
		return read{}, refusal(x402.ReasonInvalidVersion)
	}
	if fault != nil {
		return read{}, refusal(x402.ReasonInvalidPayload)
	}
	if err := f.readTerms(o); err != nil {
		return read{}, err
	}
	a, err := eip3009.Parse(o.payload.Authorization)
	if err != nil {
		return read{}, refusal(x402.ReasonInvalidPayload)
	}
	signature, err := eip3009.Signature(o.payload.Signature)
	if err != nil {
		return read{}, refusal(x402.ReasonInvalidPayload)
	}
	p := read{authorization: a, signature: signature}
	switch {
	case !sameAddress(a.To.Hex(), o.required.payTo):
		return p, refusal(x402.ReasonRecipientMismatch)
	case a.Value.String() != o.required.amount:
		return p, refusal(x402.ReasonValueMismatch)
	}
	return p, nil
}

func (f *Facilitator) readTerms(o offer) error {
	network := f.network
	if o.version == x402.V1 {
		network, _ = x402.V1Name(f.network)
	}
	r := o.required
	switch {
	case r.scheme != x402.SchemeExact || o.accepted.scheme != x402.SchemeExact:
		return refusal(x402.ReasonUnsupportedScheme)
	case network == "" || r.network != network || o.accepted.network != network:
		return refusal(x402.ReasonInvalidNetwork)
	case !sameAddress(r.asset, TokenAddress.Hex()) || !sameAddress(o.accepted.asset, r.asset):
		return refusal(x402.ReasonInvalidRequirement)
	case r.extra["name"] != TokenName || r.extra["version"] != TokenVersion:
		return refusal(x402.ReasonInvalidRequirement)
	case !sameAddress(o.accepted.payTo, r.payTo):
		return refusal(x402.ReasonRecipientMismatch)
	case o.accepted.amount != r.amount:
		return refusal(x402.ReasonValueMismatch)
	}
	return nil
}

// judge returns nil when a payment would settle now. The margin is compared with the
// clock; all the rest is decided by the token, which executes the transfer on the
// latest block without keeping it. That is one call, so the answer holds for one
// moment, and contract wallets decide as they will.
func (f *Facilitator) judge(ctx context.Context, p read) error {
	now := time.Now()
	switch a := p.authorization; {
	case a.ValidAfter.Cmp(big.NewInt(now.Unix())) > 0:
		return refusal(x402.ReasonValidAfter)
	case a.ValidBefore.Cmp(big.NewInt(now.Add(settleMargin).Unix())) < 0:
		return refusal(x402.ReasonValidBefore)
	}
	call, err := f.transfer(p)
	if err != nil {
		return err
	}
	_, err = f.chain.CallContract(ctx, ethereum.CallMsg{From: facilitatorAddress, To: &TokenAddress, Gas: transferGas, Data: call}, nil)
	return refusalOf(err)
}

// reverts maps the token's revert messages to reasons of the protocol.
var reverts = []struct{ text, reason string }{
	{"authorization is not yet valid", x402.ReasonValidAfter},
	{"authorization is expired", x402.ReasonValidBefore},
	{"authorization is used or canceled", x402.ReasonNonceAlreadyUsed},
	{"transfer amount exceeds balance", x402.ReasonInsufficientFunds},
	{"invalid signature", x402.ReasonInvalidSignature},
}

// refusalOf reads why a call failed. What the node answered is a refusal; what
// it did not answer stays an error.
func refusalOf(err error) error {
	var answered rpc.Error
	if err == nil || !errors.As(err, &answered) {
		return err
	}
	var reverted rpc.DataError
	if errors.As(err, &reverted) {
		data, _ := reverted.ErrorData().(string)
		text, _ := abi.UnpackRevert(common.FromHex(data)) // "" is in no row
		for _, r := range reverts {
			if strings.Contains(text, r.text) {
				return refusal(r.reason)
			}
		}
	}
	return refusal(reasonSimulation)
}

func (f *Facilitator) domain() eip3009.Domain {
	return eip3009.Domain{Name: TokenName, Version: TokenVersion, ChainID: f.chainID, Token: TokenAddress}
}

// transfer is the call of the token that settles.
func (f *Facilitator) transfer(p read) ([]byte, error) {
	a := p.authorization
	arguments, err := f.token.settle.Inputs.Pack(a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce, p.signature)
	if err != nil {
		return nil, fmt.Errorf("encode the transfer: %w", err)
	}
	return append(f.token.settle.ID[:4:4], arguments...), nil
}

func sameAddress(a, b string) bool {
	return common.IsHexAddress(a) && strings.EqualFold(a, b)
}

package devnet

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// settleMargin is how long an authorization must still be good, as with the
// official facilitator.
const settleMargin = 6 * time.Second

// refusal is a reason of the protocol for saying no.
type refusal string

func (r refusal) Error() string { return string(r) }

// judged is an offer that may be settled.
type judged struct {
	authorization eip3009.Authorization
	signature     []byte
}

func (f *Facilitator) verify(ctx context.Context, o offer, fault error) any {
	j, err := f.judge(ctx, o, fault)
	valid := err == nil
	return x402.VerifyResponse{IsValid: &valid, InvalidReason: f.reason(err, x402.ReasonUnexpectedVerify), Payer: j.payer()}
}

// reason gives the protocol's word for a fault, "" for none.
func (f *Facilitator) reason(err error, unexpected string) string {
	var r refusal
	switch {
	case err == nil:
		return ""
	case errors.As(err, &r):
		return string(r)
	}
	f.log.Error("a payment could not be judged", "error", err)
	return unexpected
}

func (j judged) payer() string {
	if j.authorization.Value == nil {
		return ""
	}
	return j.authorization.From.Hex()
}

// judge says whether an offer would settle now: first what it says, then what
// the chain says.
func (f *Facilitator) judge(ctx context.Context, o offer, fault error) (judged, error) {
	if errors.Is(fault, errVersion) {
		return judged{}, refusal(x402.ReasonInvalidVersion)
	}
	if fault != nil {
		return judged{}, refusal(x402.ReasonInvalidPayload)
	}
	if err := f.judgeTerms(o); err != nil {
		return judged{}, err
	}
	a, err := eip3009.Parse(o.payload.Authorization)
	if err != nil {
		return judged{}, refusal(x402.ReasonInvalidPayload)
	}
	signature, err := eip3009.Signature(o.payload.Signature)
	if err != nil {
		return judged{}, refusal(x402.ReasonInvalidPayload)
	}
	j := judged{authorization: a, signature: signature}
	if err := judgeAuthorization(a, o.required, time.Now()); err != nil {
		return j, err
	}
	return j, f.judgeOnChain(ctx, j)
}

func (f *Facilitator) judgeTerms(o offer) error {
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

func judgeAuthorization(a eip3009.Authorization, r terms, now time.Time) error {
	switch {
	case !sameAddress(a.To.Hex(), r.payTo):
		return refusal(x402.ReasonRecipientMismatch)
	case a.Value.String() != r.amount:
		return refusal(x402.ReasonValueMismatch)
	case a.ValidAfter.Cmp(big.NewInt(now.Unix())) > 0:
		return refusal(x402.ReasonValidAfter)
	case a.ValidBefore.Cmp(big.NewInt(now.Add(settleMargin).Unix())) < 0:
		return refusal(x402.ReasonValidBefore)
	}
	return nil
}

// judgeOnChain asks the token: nonce, balance, and at last the transfer itself
// without carrying it out, which judges contract wallets too.
func (f *Facilitator) judgeOnChain(ctx context.Context, j judged) error {
	a := j.authorization
	code, err := f.chain.CodeAt(ctx, a.From, nil)
	if err != nil {
		return fmt.Errorf("read the payer's code: %w", err)
	}
	if len(code) == 0 {
		if signer, err := eip3009.Recover(a.Digest(f.domain()), j.signature); err != nil || signer != a.From {
			return refusal(x402.ReasonInvalidSignature)
		}
	}
	used, err := f.ask(ctx, "authorizationState", a.From, a.Nonce)
	if err != nil {
		return err
	}
	if used.Sign() != 0 {
		return refusal(x402.ReasonNonceAlreadyUsed)
	}
	balance, err := f.ask(ctx, "balanceOf", a.From)
	if err != nil {
		return err
	}
	if balance.Cmp(a.Value) < 0 {
		return refusal(x402.ReasonInsufficientFunds)
	}
	call, err := f.transfer(j)
	if err != nil {
		return err
	}
	if _, err := f.chain.CallContract(ctx, ethereum.CallMsg{From: facilitatorAddress, To: &TokenAddress, Data: call}, nil); err != nil {
		return refusal(x402.ReasonInvalidSignature) // everything else was asked above
	}
	return nil
}

func (f *Facilitator) domain() eip3009.Domain {
	return eip3009.Domain{Name: TokenName, Version: TokenVersion, ChainID: f.chainID, Token: TokenAddress}
}

// transfer is the call of the token that settles.
func (f *Facilitator) transfer(j judged) ([]byte, error) {
	a := j.authorization
	arguments, err := f.token.settle.Inputs.Pack(a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce, j.signature)
	if err != nil {
		return nil, fmt.Errorf("encode the transfer: %w", err)
	}
	return append(f.token.settle.ID[:4:4], arguments...), nil
}

// ask calls a view of the token that answers with one word.
func (f *Facilitator) ask(ctx context.Context, view string, args ...any) (*big.Int, error) {
	call, err := f.token.abi.Pack(view, args...)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", view, err)
	}
	word, err := f.chain.CallContract(ctx, ethereum.CallMsg{To: &TokenAddress, Data: call}, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the token for %s: %w", view, err)
	}
	return new(big.Int).SetBytes(word), nil
}

func sameAddress(a, b string) bool {
	return common.IsHexAddress(a) && strings.EqualFold(a, b)
}

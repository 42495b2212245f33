package payment

import (
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// signed reports whether the payer's own key signed the authorization for the
// token of the terms: 65 bytes that recover to the payer, with v 27 or 28 and s
// in the lower half, as the token's contract demands of an ordinary account. A
// payment that is not signed so may still be good: a wallet may be a contract.
func (t Terms) signed(p Payment) bool {
	if len(p.exact.Signature) != 2+2*65 {
		return false
	}
	chain, ok := x402.ChainID(t.Network)
	if !ok {
		return false
	}
	authorization, err := eip3009.Parse(p.exact.Authorization)
	if err != nil {
		return false
	}
	signature, err := eip3009.Signature(p.exact.Signature)
	if err != nil {
		return false
	}
	signer, err := eip3009.Recover(authorization.Digest(eip3009.Domain{
		Name: t.AssetName, Version: t.AssetVersion, ChainID: chain, Token: common.HexToAddress(t.Asset),
	}), signature)
	return err == nil && strings.EqualFold(signer.Hex(), p.Key.Payer)
}

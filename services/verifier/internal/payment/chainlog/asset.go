package chainlog

import (
	"context"
	"errors"
	"strings"
)

// selectorSeparator is that of DOMAIN_SEPARATOR() (EIP-2612), which a token with EIP-3009 alone need not
// have.
const selectorSeparator = "0x3644e515"

// Asset is what the payment network shows of a token's contract.
type Asset struct {
	HasCode bool
	// Separator is that of its EIP-712 domain, as 0x and hexadecimal digits; "" when the contract
	// does not tell it or the node does not answer that.
	Separator string
}

// Asset returns what a quorum of the nodes shows of the contract at an address.
func (r *Reader) Asset(ctx context.Context, address string) (Asset, error) {
	return ask(ctx, r, func(ctx context.Context, n node) (a Asset, err error) {
		if err := r.checkChain(ctx, n); err != nil {
			return a, err
		}
		var code, separator string
		if err := n.call(ctx, &code, "eth_getCode", address, "latest"); err != nil {
			return a, err
		}
		a.HasCode = code != "0x"
		err = n.call(ctx, &separator, "eth_call", map[string]string{"to": address, "data": selectorSeparator}, "latest")
		if digits, ok := strings.CutPrefix(separator, "0x"); err == nil && ok && len(digits) == 64 &&
			strings.Trim(digits, "0") != "" {
			a.Separator = strings.ToLower(separator)
		}
		if errors.Is(err, context.DeadlineExceeded) { // the next node may answer
			return a, err
		}
		return a, ctx.Err()
	})
}

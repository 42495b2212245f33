package chainlog

import (
	"context"
	"fmt"
	"math/big"
	"strings"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// selectorBalance is that of balanceOf(address).
const selectorBalance = "0x70a08231"

// Account returns what the payment network shows of the payer in key, and of their authorization
// over an amount in atomic units, decimal. It takes the word of the first node that answers,
// whatever the quorum, and costs one exchange with each node asked.
func (r *Reader) Account(ctx context.Context, key payment.Key, amount string) (payment.Account, error) {
	alone := *r
	alone.quorum = 1
	return ask(ctx, &alone, func(ctx context.Context, n node) (payment.Account, error) {
		return r.account(ctx, n, key.Bare(), amount)
	})
}

// Spent reports whether the authorization in key is spent or cancelled. A quorum of the nodes
// agrees on that, in one exchange with each.
func (r *Reader) Spent(ctx context.Context, key payment.Key) (bool, error) {
	return ask(ctx, r, func(ctx context.Context, n node) (bool, error) {
		a, err := r.account(ctx, n, key.Bare(), "0")
		return a.Used, err
	})
}

func (r *Reader) account(ctx context.Context, n node, key payment.Key, amount string) (a payment.Account, err error) {
	needed, ok := new(big.Int).SetString(amount, 10)
	if !ok {
		return a, fmt.Errorf("%q is no amount", amount)
	}
	read := func(id int, data string) map[string]any {
		return request(id, "eth_call", map[string]string{"to": key.Asset, "data": data}, "latest")
	}
	answers, err := n.batch(ctx, "account",
		request(0, "eth_chainId"),
		read(1, selectorBalance+word(key.Payer)),
		read(2, selectorState+word(key.Payer)+strings.TrimPrefix(key.Nonce, "0x")),
		request(3, "eth_getCode", key.Payer, "latest"))
	if err != nil {
		return a, err
	}
	var chain quantity
	if err := answers[0].decode(&chain, "eth_chainId"); err != nil {
		return a, err
	}
	if uint64(chain) != r.chain {
		return a, fmt.Errorf("the node serves chain %d, not %d", chain, r.chain)
	}
	balance, err := number(answers[1], "balanceOf")
	if err != nil {
		return a, err
	}
	state, err := number(answers[2], "authorizationState")
	if err != nil {
		return a, err
	}
	var code string
	if err := answers[3].decode(&code, "eth_getCode"); err != nil {
		return a, err
	}
	if !strings.HasPrefix(code, "0x") {
		return a, fmt.Errorf("eth_getCode: no code of the form 0x")
	}
	return payment.Account{Funded: balance.Cmp(needed) >= 0, Used: state.Sign() != 0, Code: len(code) > len("0x")}, nil
}

// number reads the one word of 32 bytes that a contract's function has returned.
func number(a answer, name string) (*big.Int, error) {
	var text string
	if err := a.decode(&text, name); err != nil {
		return nil, err
	}
	n, ok := new(big.Int).SetString(strings.TrimPrefix(text, "0x"), 16)
	if !ok || len(text) != 66 || n.Sign() < 0 {
		return nil, fmt.Errorf("%s gave no word", name)
	}
	return n, nil
}

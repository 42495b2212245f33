package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// chain reads the development chain, past every fault.
type chain struct{ url string }

func (c chain) call(ctx context.Context, result any, method string, params ...any) error {
	question := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := postJSON(ctx, c.url, question, &answer); err != nil {
		return err
	}
	if len(answer.Error) > 0 {
		return fmt.Errorf("%s: %s", method, answer.Error)
	}
	return json.Unmarshal(answer.Result, result)
}

// block is what is read of a block.
type block struct {
	Number       string   `json:"number"`
	Transactions []string `json:"transactions"`
}

// head gives the number of the latest or the finalized block.
func (c chain) head(ctx context.Context, which string) (uint64, error) {
	var b block
	if err := c.call(ctx, &b, "eth_getBlockByNumber", which, false); err != nil {
		return 0, err
	}
	return number(b.Number)
}

// ready waits until there is a finalized transaction.
func (c chain) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return until(ctx, func(ctx context.Context) error {
		found, err := c.transactions(ctx)
		if err == nil && len(found) == 0 {
			err = errors.New("the chain has no finalized transaction yet")
		}
		return err
	})
}

// transactions gives up to ten finalized transactions, new and old ones.
func (c chain) transactions(ctx context.Context) (hashes []string, err error) {
	final, err := c.head(ctx, "finalized")
	if err != nil {
		return nil, err
	}
	for n := uint64(0); n < 60 && n <= final && len(hashes) < 10; n++ {
		at := n
		if n >= 20 {
			at = final - (n - 20)
		}
		var b block
		if err := c.call(ctx, &b, "eth_getBlockByNumber", hexNumber(at), false); err != nil {
			return nil, err
		}
		hashes = append(hashes, b.Transactions...)
	}
	return hashes, nil
}

// newest returns the newest transaction of the chain that is not final, "" when
// there is none.
func (c chain) newest(ctx context.Context) (string, error) {
	final, err := c.head(ctx, "finalized")
	if err != nil {
		return "", err
	}
	latest, err := c.head(ctx, "latest")
	for n := latest; err == nil && n > final; n-- {
		var b block
		if err = c.call(ctx, &b, "eth_getBlockByNumber", hexNumber(n), false); err == nil && len(b.Transactions) > 0 {
			return b.Transactions[0], nil
		}
	}
	return "", err
}

// failed returns, since a block, how many transactions of the token reverted, by
// the account that would have paid.
func (c chain) failed(ctx context.Context, since uint64) (byPayer map[string]int, err error) {
	byPayer = map[string]int{}
	latest, err := c.head(ctx, "latest")
	for n := since; err == nil && n <= latest; n++ {
		var b struct {
			Transactions []struct{ Hash, To, Input string } `json:"transactions"`
		}
		if err = c.call(ctx, &b, "eth_getBlockByNumber", hexNumber(n), true); err != nil {
			return nil, err
		}
		for _, t := range b.Transactions {
			var done transaction
			if err = c.call(ctx, &done, "eth_getTransactionReceipt", t.Hash); err != nil {
				return nil, err
			}
			if done.Status == "0x0" && strings.EqualFold(t.To, layout.Token) && len(t.Input) >= 74 {
				byPayer["0x"+t.Input[34:74]]++ // behind the selector and twelve zeros
			}
		}
	}
	return byPayer, err
}

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// nextBlocks waits for n further blocks.
func (c chain) nextBlocks(ctx context.Context, n uint64) error {
	begin, err := c.head(ctx, "latest")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return until(ctx, func(ctx context.Context) error {
		now, err := c.head(ctx, "latest")
		if err == nil && now < begin+n {
			err = errors.New("the chain stands still")
		}
		return err
	})
}

// Topics of the token's events.
const (
	usedTopic     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5" // AuthorizationUsed(address,bytes32)
	transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef" // Transfer(address,address,uint256)
)

type event struct {
	Topics      []string `json:"topics"`
	Data        string   `json:"data"`
	Transaction string   `json:"transactionHash"`
}

// transfers gives, since a block, how often each authorization moved the price to
// the payee, by its nonce, and the transfers to the payee without one.
func (c chain) transfers(ctx context.Context, since uint64) (byNonce map[string]int, strange int, err error) {
	var events []event
	filter := map[string]any{"fromBlock": hexNumber(since), "toBlock": "latest", "address": layout.Token}
	if err := c.call(ctx, &events, "eth_getLogs", filter); err != nil {
		return nil, 0, err
	}
	nonces := map[string]string{}
	for _, e := range events {
		if e.Topics[0] == usedTopic {
			nonces[e.Transaction] = e.Topics[2]
		}
	}
	byNonce = map[string]int{}
	for _, e := range events {
		if e.Topics[0] != transferTopic || !strings.HasSuffix(e.Topics[2], strings.ToLower(layout.Payee[2:])) {
			continue
		}
		nonce, known := nonces[e.Transaction]
		if amount, err := number(e.Data); !known || err != nil || amount != price {
			strange++
			continue
		}
		byNonce[nonce]++
	}
	return byNonce, strange, nil
}

// number reads a quantity of JSON-RPC.
func number(hex string) (uint64, error) {
	digits := strings.TrimLeft(strings.TrimPrefix(hex, "0x"), "0")
	if digits == "" {
		return 0, nil
	}
	return strconv.ParseUint(digits, 16, 64)
}

// pause is a wait that ends with ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
	"github.com/pforte/pforte/pkg/x402"
)

// bystander is an account of the development chain that sells nothing.
const bystander = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"

// chain reads the development chain, past every fault, and moves money on it
// without any service.
type chain struct {
	client.Chain
	facilitator string // its address, also past every fault
}

// block is what is read of a block.
type block struct {
	Number       client.Quantity
	Transactions []string
}

// at returns a block by its tag or number.
func (c chain) at(ctx context.Context, which string) (b block, err error) {
	return b, c.Call(ctx, &b, "eth_getBlockByNumber", which, false)
}

// head returns the number of the latest or the finalized block.
func (c chain) head(ctx context.Context, which string) (uint64, error) {
	b, err := c.at(ctx, which)
	return uint64(b.Number), err
}

// ready waits until there is a finalized transaction.
func (c chain) ready(ctx context.Context) error {
	return until(ctx, fixture.ReadyWithin, func(ctx context.Context) error {
		found, err := c.transactions(ctx)
		if err == nil && len(found) == 0 {
			err = errors.New("the chain has no finalized transaction yet")
		}
		return err
	})
}

// transactions returns up to ten finalized transactions, new and old ones.
func (c chain) transactions(ctx context.Context) (hashes []string, err error) {
	final, err := c.head(ctx, "finalized")
	for n := uint64(0); err == nil && n < 60 && n <= final && len(hashes) < 10; n++ {
		at := n
		if n >= 20 {
			at = final - (n - 20)
		}
		var b block
		b, err = c.at(ctx, hexNumber(at))
		hashes = append(hashes, b.Transactions...)
	}
	return hashes, err
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
		if b, err = c.at(ctx, hexNumber(n)); err == nil && len(b.Transactions) > 0 {
			return b.Transactions[0], nil
		}
	}
	return "", err
}

// isFinal waits until a transaction is final.
func (c chain) isFinal(ctx context.Context, hash string) error {
	return until(ctx, fixture.ReadyWithin, func(ctx context.Context) error {
		done, err := c.receipt(ctx, hash)
		if err != nil {
			return err
		}
		if final, err := c.head(ctx, "finalized"); err != nil || done.BlockHash == "" || final < uint64(done.BlockNumber) {
			return errors.Join(err, fmt.Errorf("%s is not final", hash))
		}
		return nil
	})
}

// nextBlocks waits for n further blocks.
func (c chain) nextBlocks(ctx context.Context, n uint64) error {
	begin, err := c.head(ctx, "latest")
	if err != nil {
		return err
	}
	return until(ctx, fixture.ReadyWithin, func(ctx context.Context) error {
		now, err := c.head(ctx, "latest")
		if err == nil && now < begin+n {
			err = errors.New("the chain makes no blocks")
		}
		return err
	})
}

// failed returns, since a block, how many transactions of the token reverted, by
// the account that would have paid.
func (c chain) failed(ctx context.Context, since uint64) (byPayer map[string]int, err error) {
	byPayer = map[string]int{}
	latest, err := c.head(ctx, "latest")
	for n := since; err == nil && n <= latest; n++ {
		var b struct {
			Transactions []struct{ Hash, To, Input string }
		}
		if err = c.Call(ctx, &b, "eth_getBlockByNumber", hexNumber(n), true); err != nil {
			return nil, err
		}
		for _, t := range b.Transactions {
			done, err := c.receipt(ctx, t.Hash)
			if err != nil {
				return nil, err
			}
			if done.Status == 0 && strings.EqualFold(t.To, layout.Token) && len(t.Input) >= 74 {
				byPayer["0x"+t.Input[34:74]]++ // behind the selector and twelve zeros
			}
		}
	}
	return byPayer, err
}

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// Topics of the token's events.
const (
	usedTopic     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5" // AuthorizationUsed(address,bytes32)
	transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef" // Transfer(address,address,uint256)
)

// transfers returns, since a block, how often each authorization moved the price
// to the payee, by its nonce, and the number of transfers to the payee without one.
func (c chain) transfers(ctx context.Context, since uint64) (byNonce map[string]int, unsigned int, err error) {
	var events []struct {
		Topics                []string
		Data, TransactionHash string
	}
	filter := map[string]any{"fromBlock": hexNumber(since), "toBlock": "latest", "address": layout.Token}
	if err := c.Call(ctx, &events, "eth_getLogs", filter); err != nil {
		return nil, 0, err
	}
	nonces := map[string]string{}
	for _, e := range events {
		if e.Topics[0] == usedTopic {
			nonces[e.TransactionHash] = e.Topics[2]
		}
	}
	byNonce = map[string]int{}
	for _, e := range events {
		if e.Topics[0] != transferTopic || !strings.HasSuffix(e.Topics[2], strings.ToLower(layout.Payee[2:])) {
			continue
		}
		nonce, known := nonces[e.TransactionHash]
		if amount, err := strconv.ParseUint(e.Data, 0, 64); !known || err != nil || amount != price {
			unsigned++
			continue
		}
		byNonce[nonce]++
	}
	return byNonce, unsigned, nil
}

// isUsed reports whether an authorization of an account was used.
func (c chain) isUsed(ctx context.Context, account, nonce string) (bool, error) {
	const authorizationState = "0xe94a0102" // authorizationState(address,bytes32)
	var used client.Quantity
	data := authorizationState + strings.Repeat("0", 24) + account[2:] + nonce[2:]
	err := c.Call(ctx, &used, "eth_call", map[string]string{"to": layout.Token, "data": data}, "latest")
	return used == 1, err
}

// transfer moves money of the development chain's payer to an account.
func (c chain) transfer(ctx context.Context, to, amount string) (hash string, err error) {
	offer := x402.PaymentRequired{Accepts: []x402.Requirements{{
		Scheme: x402.SchemeExact, Network: layout.Network, Amount: amount, Asset: layout.Token, PayTo: to, MaxTimeoutSeconds: 60,
		Extra: map[string]any{"name": layout.TokenName, "version": layout.TokenVersion},
	}}}
	payer := client.NewAccount(layout.PayerKey)
	authorization, err := payer.Authorize(offer)
	if err != nil {
		return "", err
	}
	return c.carryOut(ctx, payer, offer, authorization)
}

// carryOut has the facilitator settle an authorization, past every service and every fault.
func (c chain) carryOut(
	ctx context.Context, by *client.Account, offer x402.PaymentRequired, authorization x402.Authorization,
) (hash string, err error) {
	payment, err := by.Sign(offer, x402.V2, authorization)
	if err != nil {
		return "", err
	}
	payload, err := base64.StdEncoding.DecodeString(payment.Value)
	if err != nil {
		return "", err
	}
	request := x402.Request{X402Version: x402.V2, PaymentPayload: payload, PaymentRequirements: marshal(offer.Accepts[0])}
	var settled x402.SettleResponse
	answer := client.Post(ctx, "http://"+c.facilitator+"/settle", request)
	if err := json.Unmarshal(answer.Body, &settled); answer.Err != nil || err != nil || settled.Success == nil || !*settled.Success {
		return "", fmt.Errorf("transfer to %s: %s %.300s", authorization.To, answer, answer.Body)
	}
	return settled.Transaction, nil
}

// refusesTransactions is a contract wallet (ERC-1271) that holds every signature
// for good in a simulation, where gas has no price, and for bad in a transaction.
//
//	GASPRICE ISZERO PUSH4 0x1626ba7e PUSH1 224 SHL MUL PUSH1 0 MSTORE PUSH1 32 PUSH1 0 RETURN
const refusesTransactions = "3a15631626ba7e60e01b0260005260206000f3"

// deploys is the code that makes a contract of the code behind it, of 19 bytes.
//
//	PUSH1 19 DUP1 PUSH1 11 PUSH1 0 CODECOPY PUSH1 0 RETURN
const deploys = "601380600b6000396000f3"

// makeRevert turns accounts into wallets that refuse transactions (EIP-7702). They
// sign payments with plain keys, which recover to them, every simulation of such a
// payment succeeds, and every transfer reverts.
func (c chain) makeRevert(ctx context.Context, payers []*client.Account) error {
	sender := client.NewAccount(layout.PayerKey)
	var id, nonce client.Quantity
	err := errors.Join(c.Call(ctx, &id, "eth_chainId"), c.Call(ctx, &nonce, "eth_getTransactionCount", sender.Address, "pending"))
	if err != nil {
		return err
	}
	created, err := c.send(ctx, sender, 2, uint64(id), uint64(nonce), nil, unhex(deploys+refusesTransactions), nil)
	if err != nil {
		return err
	}
	if created.ContractAddress == "" {
		return errors.New("the wallet's contract was not created")
	}
	var tuples []any
	for _, payer := range payers {
		tuple := []any{integer(uint64(id)), unhex(created.ContractAddress), integer(0)}
		tuples = append(tuples, append(tuple, signature(payer, append([]byte{5}, rlp(tuple)...))...))
	}
	_, err = c.send(ctx, sender, 4, uint64(id), uint64(nonce)+1, unhex(sender.Address), nil, tuples)
	return err
}

// transaction is what is read of one; without a BlockHash it is in no block.
type transaction struct {
	Status, BlockNumber, GasUsed     client.Quantity
	ContractAddress, BlockHash, From string
}

func (c chain) receipt(ctx context.Context, hash string) (t transaction, err error) {
	return t, c.Call(ctx, &t, "eth_getTransactionReceipt", hash)
}

// send sends a transaction of type 2, or of type 4 with its authorizations, and
// returns when it is in a block.
func (c chain) send(ctx context.Context, by *client.Account, kind byte, id, nonce uint64, to, data []byte, authorizations []any) (done transaction, err error) {
	fields := []any{integer(id), integer(nonce), integer(1e9), integer(100e9), integer(3_000_000), to, integer(0), data, []any{}}
	if kind == 4 {
		fields = append(fields, authorizations)
	}
	fields = append(fields, signature(by, append([]byte{kind}, rlp(fields)...))...)
	var hash string
	if err := c.Call(ctx, &hash, "eth_sendRawTransaction", "0x"+hex.EncodeToString(append([]byte{kind}, rlp(fields)...))); err != nil {
		return done, err
	}
	err = until(ctx, fixture.ReadyWithin, func(ctx context.Context) error {
		if done, err = c.receipt(ctx, hash); err != nil || done.BlockHash == "" {
			return errors.Join(err, fmt.Errorf("%s is in no block yet", hash))
		}
		return nil
	})
	if err == nil && done.Status != 1 {
		err = fmt.Errorf("%s reverted", hash)
	}
	return done, err
}

// signature returns parity, r and s of what is signed.
func signature(by *client.Account, text []byte) []any {
	parity, r, s := by.SignDigest(client.Keccak(text))
	return []any{integer(uint64(parity)), bytes.TrimLeft(r, "\x00"), bytes.TrimLeft(s, "\x00")}
}

// rlp encodes byte strings, nil among them, and lists of them.
func rlp(v any) []byte {
	switch v := v.(type) {
	case []byte:
		if len(v) == 1 && v[0] < 0x80 {
			return v
		}
		return append(prefix(0x80, len(v)), v...)
	case []any:
		var body []byte
		for _, each := range v {
			body = append(body, rlp(each)...)
		}
		return append(prefix(0xc0, len(body)), body...)
	}
	panic(fmt.Sprintf("RLP has no %T", v))
}

func prefix(of byte, size int) []byte {
	if size < 56 {
		return []byte{of + byte(size)}
	}
	digits := integer(uint64(size))
	return slices.Concat([]byte{of + 55 + byte(len(digits))}, digits)
}

// integer is a number without leading zeros.
func integer(n uint64) []byte { return new(big.Int).SetUint64(n).Bytes() }

// unhex reads hexadecimal digits of this program's own.
func unhex(text string) []byte {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		panic(err)
	}
	return raw
}

package paymenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Simulator is a chain and a facilitator on it, both in memory; the facilitator is honest unless a
// test has it answer otherwise. The spent authorizations show what was transferred.
type Simulator struct {
	// Now is the clock.
	Now func() time.Time
	// Network is the CAIP-2 chain.
	Network string

	mu sync.Mutex
	// spent has, by its nonce, what an authorization was spent by: a transaction, or "" when it
	// was cancelled.
	spent map[string]string
	moved int
	// values are what authorizations moved that were settled, in units, by their nonces.
	values map[string]string
	// reverted are the nonces that failed transactions were for, by their hashes.
	reverted map[string]string
	// refunds are the units that transactions paid back to the buyer, by their hashes.
	refunds map[string]int64
	// Bodies are the settlements that were requested.
	Bodies [][]byte
	// Verifies counts the calls of Verify, Looks those of Authorization, Accounts those of Account.
	Verifies, Looks, Accounts int

	// Signed, when set, reports to Verify whether a signature is good; else every one is, as if
	// each payer were a contract that agrees to all.
	Signed func(p x402.ExactPayload) bool
	// OnVerify and OnSettle, when set, answer in place of the honest facilitator, which
	// OnSettle may call.
	OnVerify func() (x402.VerifyResponse, error)
	OnSettle func(ctx context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error)
	// OnSettleOf is OnSettle with the payment that is to be settled. Where both are set, it is called
	// and OnSettle is not.
	OnSettleOf func(p x402.ExactPayload, honest func() x402.SettleResponse) (x402.SettleResponse, error)
	// ChainLog, when set, is the error of Authorization and Spent.
	ChainLog error
	// OnAccount, when set, returns what the chain shows of a payer, beside Used; else each has the
	// amount and code, as if they were a contract.
	OnAccount func(payer string) (payment.Account, error)
	// Final makes an unspent authorization Expired once its end has passed.
	Final bool
}

// NewSimulator returns a simulator of a network without any transfer.
func NewSimulator(network string, now func() time.Time) *Simulator {
	return &Simulator{
		Network: network, Now: now, refunds: map[string]int64{},
		spent: map[string]string{}, reverted: map[string]string{}, values: map[string]string{},
	}
}

// ErrCut is the error of a connection that broke.
var ErrCut = errors.New("connection cut")

// Transfers counts the transfers to the seller that are on the chain.
func (b *Simulator) Transfers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moved
}

// Set changes the simulator while it is in use.
func (b *Simulator) Set(change func(*Simulator)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

func exactOf(body []byte) (version int, p x402.ExactPayload) {
	var request x402.Request
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	var payload struct {
		Payload x402.ExactPayload `json:"payload"`
	}
	if err := json.Unmarshal(request.PaymentPayload, &payload); err != nil {
		panic(err)
	}
	return request.X402Version, payload.Payload
}

// Verify implements payment.Facilitator.
func (b *Simulator) Verify(_ context.Context, body []byte) (x402.VerifyResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Verifies++
	if b.OnVerify != nil {
		return b.OnVerify()
	}
	_, p := exactOf(body)
	_, used := b.spent[p.Authorization.Nonce]
	valid := !used
	answer := x402.VerifyResponse{IsValid: &valid, Payer: p.Authorization.From}
	if used {
		answer.InvalidReason = x402.ReasonNonceAlreadyUsed
	}
	if b.Signed != nil && !b.Signed(p) {
		valid, answer.InvalidReason = false, x402.ReasonInvalidSignature
	}
	return answer, nil
}

// Settle implements payment.Facilitator.
func (b *Simulator) Settle(ctx context.Context, body []byte) (x402.SettleResponse, error) {
	b.mu.Lock()
	b.Bodies = append(b.Bodies, bytes.Clone(body))
	scripted, scriptedOf := b.OnSettle, b.OnSettleOf
	b.mu.Unlock()
	if scriptedOf != nil {
		_, p := exactOf(body)
		return scriptedOf(p, func() x402.SettleResponse { return b.settle(body) })
	}
	if scripted != nil {
		return scripted(ctx, func() x402.SettleResponse { return b.settle(body) })
	}
	return b.settle(body), nil
}

// settle carries out an authorization that is not spent, whatever its signature and window.
func (b *Simulator) settle(body []byte) x402.SettleResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	version, p := exactOf(body)
	a := p.Authorization
	name := b.Network
	if version == x402.V1 {
		name, _ = x402.V1Name(b.Network)
	}
	yes, no := true, false
	if _, used := b.spent[a.Nonce]; used {
		return x402.SettleResponse{Success: &no, ErrorReason: x402.ReasonNonceAlreadyUsed, Network: name, Payer: a.From}
	}
	b.moved++
	b.spent[a.Nonce], b.values[a.Nonce] = Hash(b.moved), a.Value
	return x402.SettleResponse{Success: &yes, Transaction: b.spent[a.Nonce], Network: name, Payer: a.From}
}

// Hash returns the hash of the n-th transfer.
func Hash(n int) string { return fmt.Sprintf("0x%064x", n) }

// Refund puts a transaction on the chain that pays units back to the buyer, and returns
// its hash.
func (b *Simulator) Refund(units int64) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	hash := Hash(0xfeed00 + len(b.refunds))
	b.refunds[hash] = units
	return hash
}

// Cancel spends the authorization of Nonce(nonce) without paying anybody.
func (b *Simulator) Cancel(nonce string) {
	b.Set(func(b *Simulator) { b.spent[Nonce(nonce)] = "" })
}

// CarryOut broadcasts the authorization of Nonce(nonce) past us, as an observer may.
func (b *Simulator) CarryOut(nonce string) {
	b.Set(func(b *Simulator) {
		b.moved++
		b.spent[Nonce(nonce)] = Hash(b.moved)
	})
}

// Lose takes the transfer of the authorization of Nonce(nonce) off the chain, as a
// reorganization does that does not carry it out again.
func (b *Simulator) Lose(nonce string) {
	b.Set(func(b *Simulator) {
		b.moved--
		delete(b.spent, Nonce(nonce))
	})
}

// Revert puts a transaction for the authorization of Nonce(nonce) on the chain that fails,
// and returns its hash.
func (b *Simulator) Revert(nonce string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	hash := Hash(0xbad00 + len(b.reverted))
	b.reverted[hash] = Nonce(nonce)
	return hash
}

// Authorization implements payment.ChainLog.
func (b *Simulator) Authorization(_ context.Context, q payment.Record) (payment.Authorization, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Looks++
	if b.ChainLog != nil {
		return payment.Authorization{}, b.ChainLog
	}
	transaction, used := b.spent[q.Key.Bare().Nonce]
	switch {
	case used && (transaction == "" || b.movedOther(q)):
		return payment.Authorization{Status: payment.UsedElsewhere}, nil
	case used:
		return payment.Authorization{Status: payment.PaidToUs, Transaction: transaction}, nil
	case b.Final && b.Now().After(q.ValidBefore):
		return payment.Authorization{Status: payment.Expired}, nil
	case q.Transaction != "" && b.reverted[q.Transaction] == q.Key.Bare().Nonce:
		return payment.Authorization{Status: payment.Reverted}, nil
	}
	return payment.Authorization{Status: payment.Unused}, nil
}

// movedOther reports whether a payment was settled with another amount.
func (b *Simulator) movedOther(q payment.Record) bool {
	value, settled := b.values[q.Key.Bare().Nonce]
	return settled && value != q.Amount
}

// Account implements paywall.Accounts.
func (b *Simulator) Account(_ context.Context, key payment.Key, _ string) (a payment.Account, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Accounts++
	if a = (payment.Account{Funded: true, Code: true}); b.OnAccount != nil {
		a, err = b.OnAccount(key.Payer)
	}
	if _, used := b.spent[key.Bare().Nonce]; used {
		a.Used = true
	}
	return a, err
}

// Spent implements paywall.Accounts.
func (b *Simulator) Spent(_ context.Context, key payment.Key) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, used := b.spent[key.Bare().Nonce]
	return used && b.ChainLog == nil, b.ChainLog
}

// SettleBodies returns the distinct bodies that settling was called with, without white space
// around them, and how often each was.
func (b *Simulator) SettleBodies() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	bodies := map[string]int{}
	for _, body := range b.Bodies {
		bodies[strings.TrimSpace(string(body))]++
	}
	return bodies
}

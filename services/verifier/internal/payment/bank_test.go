package payment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// bank is the chain and an honest facilitator on it, both in memory. Its spent
// authorizations are the independent record of what was transferred.
type bank struct {
	clock *clock

	mu sync.Mutex
	// spent says by what an authorization was spent: a transaction, or "" when
	// it was cancelled.
	spent map[string]string
	moved int
	// bodies are the settlings that were asked for.
	bodies [][]byte
	// verifies counts the checks.
	verifies int

	// onVerify and onSettle, when set, answer in place of the honest one, which
	// they may call.
	onVerify func() (x402.VerifyResponse, error)
	onSettle func(ctx context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error)
	// truth, when set, is what asking the chain fails with.
	truth error
	// final is whether the chain has finalized past the end of everything.
	final bool
}

var errCut = errors.New("connection cut")

func (b *bank) transfers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moved
}

func (b *bank) set(change func(*bank)) {
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

func (b *bank) Verify(_ context.Context, body []byte) (x402.VerifyResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.verifies++
	if b.onVerify != nil {
		return b.onVerify()
	}
	_, p := exactOf(body)
	_, used := b.spent[p.Authorization.Nonce]
	valid := !used
	answer := x402.VerifyResponse{IsValid: &valid, Payer: p.Authorization.From}
	if used {
		answer.InvalidReason = x402.ReasonNonceAlreadyUsed
	}
	return answer, nil
}

func (b *bank) Settle(ctx context.Context, body []byte) (x402.SettleResponse, error) {
	b.mu.Lock()
	b.bodies = append(b.bodies, bytes.Clone(body))
	scripted := b.onSettle
	b.mu.Unlock()
	if scripted != nil {
		return scripted(ctx, func() x402.SettleResponse { return b.settle(body) })
	}
	return b.settle(body), nil
}

// settle is the honest settling.
func (b *bank) settle(body []byte) x402.SettleResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	version, p := exactOf(body)
	a := p.Authorization
	name := network
	if version == x402.V1 {
		name, _ = x402.V1Name(network)
	}
	yes, no := true, false
	if _, used := b.spent[a.Nonce]; used {
		return x402.SettleResponse{Success: &no, ErrorReason: x402.ReasonNonceAlreadyUsed, Network: name, Payer: a.From}
	}
	b.moved++
	b.spent[a.Nonce] = hash(b.moved)
	return x402.SettleResponse{Success: &yes, Transaction: b.spent[a.Nonce], Network: name, Payer: a.From}
}

func hash(n int) string { return fmt.Sprintf("0x%064x", n) }

// cancel spends the authorization without paying anybody.
func (b *bank) cancel(nonce string) {
	b.set(func(b *bank) { b.spent[authorization(nonce, start).Nonce] = "" })
}

// carryOut broadcasts the authorization past us, as an observer may.
func (b *bank) carryOut(nonce string) {
	b.set(func(b *bank) {
		b.moved++
		b.spent[authorization(nonce, start).Nonce] = hash(b.moved)
	})
}

func (b *bank) Fate(_ context.Context, q payment.Question) (payment.Fate, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.truth != nil {
		return payment.Fate{}, b.truth
	}
	transaction, used := b.spent[q.Key.Nonce]
	switch {
	case used && transaction == "":
		return payment.Fate{Is: payment.Elsewhere}, nil
	case used:
		return payment.Fate{Is: payment.Paid, Transaction: transaction}, nil
	case b.final && b.clock.now().After(q.ValidBefore):
		return payment.Fate{Is: payment.Expired}, nil
	}
	return payment.Fate{Is: payment.Unspent}, nil
}

// settleBodies are the distinct bodies that settling was asked with.
func (b *bank) settleBodies() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	bodies := map[string]int{}
	for _, body := range b.bodies {
		bodies[strings.TrimSpace(string(body))]++
	}
	return bodies
}

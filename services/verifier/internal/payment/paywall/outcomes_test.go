package paywall_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// liar is a facilitator that broadcasts a transfer now, later or never, or one
// that reverts, and then answers anything at all; and the chain it does so on. It
// keeps one rule: with a reason of the list and no transaction it reports that it has
// sent nothing, and then it has not, unless the chain shows the transfer to its readers.
type liar struct {
	mu sync.Mutex
	*rand.Rand
	// waiting are the broadcast transfers in the order of their hashes.
	waiting []*broadcast
	// spent holds which transaction spent a nonce; named are the transactions that
	// the facilitator told us of, or that moved money.
	spent, named map[string]string
	made         int
	// honest makes the chain answer every question, sure the next one.
	honest, sure bool
}

type broadcast struct {
	hash, nonce string
	lands, ends time.Time
	reverts     bool
}

// settle moves what has landed by now.
func (l *liar) settle() {
	var rest []*broadcast
	for _, b := range l.waiting {
		switch {
		case b.lands.After(time.Now()):
			rest = append(rest, b)
		case !b.reverts && l.spent[b.nonce] == "" && b.lands.Before(b.ends):
			l.spent[b.nonce] = b.hash
			l.named[b.hash] = b.nonce
		default:
			b.reverts = true
			rest = append(rest, b)
		}
	}
	l.waiting = rest
}

// Verify implements payment.Facilitator.
func (l *liar) Verify(context.Context, []byte) (x402.VerifyResponse, error) {
	yes := true
	return x402.VerifyResponse{IsValid: &yes}, nil
}

// sayings are what it returns when it refuses: words of the list in several
// spellings first, then others.
var sayings = []string{
	"insufficient_funds", "INSUFFICIENT_FUNDS", "Invalid Exact EVM Signature", "invalid_exact_evm_transaction_simulation_failed",
	"", "settlement_pending", "Settlement-Pending", "invalid_exact_evm_nonce_already_used", "duplicate_settlement",
	"invalid_exact_evm_transaction_failed", "invalid_exact_evm_failed_to_get_receipt", "request timed out", "Timeout waiting",
	"context deadline exceeded", "did not confirm in time", "unexpected_settle_error", "free_tier_limit_exceeded", "rate limited",
	"insufficient funds for gas", "signature pool exhausted", "\x00\xff", strings.Repeat("x", 500), "execution reverted: billing",
}

const listed = 4

// takes is how long a settling takes.
func (l *liar) takes() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.IntN(3000)) * time.Millisecond
}

// Settle implements payment.Facilitator.
func (l *liar) Settle(_ context.Context, body []byte) (x402.SettleResponse, error) {
	nonce, ends := nonceOf(body)
	time.Sleep(l.takes())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	made := &broadcast{hash: paymenttest.Hash(1000 + l.made), nonce: nonce, ends: ends, lands: time.Now()}
	l.made++
	sent := true
	switch l.IntN(5) {
	case 0: // never
		made.hash, sent = "", false
	case 1:
		made.reverts = true
	case 2, 3: // later
		made.lands = made.lands.Add(time.Duration(l.IntN(80)) * time.Second)
	}
	if sent {
		l.waiting = append(l.waiting, made)
	}
	l.settle()
	if l.IntN(6) == 0 {
		return x402.SettleResponse{}, errors.New("connection cut")
	}
	yes, no := true, false
	answer := x402.SettleResponse{Network: network, Payer: paymenttest.Buyer}
	switch l.IntN(5) {
	case 0:
		answer.Success = &yes
		answer.Transaction = l.hash(made.hash)
	case 1: // no verdict
	default:
		answer.Success, answer.ErrorReason = &no, sayings[l.IntN(len(sayings))]
		if l.IntN(2) == 0 {
			answer.Transaction = l.hash(made.hash)
		}
		if answer.Transaction == "" && sent && l.spent[nonce] != made.hash {
			answer.ErrorReason = sayings[listed+l.IntN(len(sayings)-listed)]
		}
		l.sure = answer.Transaction == "" && sent
	}
	if answer.Transaction == made.hash && made.reverts {
		l.named[made.hash] = nonce
	}
	return answer, nil
}

// hash is the right one, none, one that does not exist, or another payment's.
func (l *liar) hash(right string) string {
	return [...]string{right, "", paymenttest.Hash(77), paymenttest.Hash(1000 + l.IntN(l.made))}[l.IntN(4)]
}

// Authorization implements payment.ChainLog.
func (l *liar) Authorization(_ context.Context, q payment.Record) (payment.Authorization, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	if !l.honest && !l.sure && l.IntN(5) == 0 {
		return payment.Authorization{}, errors.New("node away")
	}
	l.sure = false
	if by := l.spent[q.Key.Nonce]; by != "" {
		return payment.Authorization{Status: payment.PaidToUs, Transaction: by}, nil
	}
	if time.Now().After(q.ValidBefore.Add(30 * time.Second)) {
		return payment.Authorization{Status: payment.Expired}, nil
	}
	for _, b := range l.waiting {
		if b.hash == q.Transaction && b.nonce == q.Key.Nonce && b.reverts && !b.lands.After(time.Now()) {
			return payment.Authorization{Status: payment.Reverted}, nil
		}
	}
	return payment.Authorization{Status: payment.Unused}, nil
}

var liars = flag.Uint64("liars", 80, "how many facilitators lie, each in its own way; `make chaos` has 300")

// A buyer who sends the same payment again, and pays anew only on a 402 with a
// fresh challenge, never pays twice for one answer, whatever the facilitator returns;
// nor are there more transactions than the month allows.
func TestOutcome_NoFacilitatorMakesABuyerPayTwice(t *testing.T) {
	const groups = 4
	for group := range uint64(groups) {
		t.Run(fmt.Sprint(group), func(t *testing.T) {
			t.Parallel()
			for seed := group; seed < *liars; seed += groups {
				for _, confirm := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) { buyFromALiar(t, seed, confirm) })
				}
			}
		})
	}
}

func buyFromALiar(t *testing.T, seed uint64, confirm bool) {
	l := &liar{Rand: rand.New(rand.NewPCG(seed, 0)), spent: map[string]string{}, named: map[string]string{}}
	draw := rand.New(rand.NewPCG(seed, 1))
	limit := 1 + draw.IntN(8)
	ledger := paymenttest.Ledger(t, time.Now)
	replica, err := paywall.Open(t.Context(), paywall.Options{
		Ledger: ledger, Facilitator: l, ChainLog: l, Confirm: confirm, FreeSettlements: limit,
		VerifyTimeout: 5 * time.Second, SettleTimeout: 5 * time.Second, WorkTimeout: 5 * time.Second,
		AttemptsPerPayer: 1000, AttemptsPerAddress: 1000,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now, Heartbeat: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	reconciler := paywall.NewReconciler(paywall.ReconcilerOptions{
		Ledger: ledger, ChainLog: l, KeepAnswers: time.Hour, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	const buyers = 3
	nonces := [buyers][]string{}
	answered, payments := [buyers]bool{}, [buyers]payment.Payment{}
	pay := func(b int) {
		digits := fmt.Sprintf("b%d%02d", b, len(nonces[b]))
		nonces[b] = append(nonces[b], paymenttest.Nonce(digits))
		payments[b] = readPayment(t, 2, payloadV2(paymenttest.Authorization(digits, time.Now())))
	}
	try := func(b int) {
		_, err := replica.Buy(t.Context(), paywall.Order{
			Offer: offer(), Payment: payments[b], Request: payment.Digest{byte(b)}, Address: "192.0.2.1",
			Work: func(context.Context) ([]byte, error) { return []byte("the thing"), nil },
		})
		switch {
		case err == nil:
			answered[b] = true
		case errors.Is(err, payment.ErrNotSettled), errors.Is(err, payment.ErrRefused), errors.Is(err, payment.ErrInvalid):
			if len(nonces[b]) < 6 {
				pay(b) // a 402 with a fresh challenge
			}
		}
	}
	for b := range buyers {
		pay(b)
	}
	for range 60 {
		if b := draw.IntN(buyers); !answered[b] {
			try(b)
		}
		if draw.IntN(3) == 0 {
			reconciler.Reconcile(t.Context())
		}
		time.Sleep(time.Duration(draw.IntN(8000)) * time.Millisecond)
	}
	time.Sleep(5 * time.Minute)
	l.mu.Lock()
	l.honest = true
	l.settle()
	l.mu.Unlock()
	for b := range buyers {
		paid := 0
		for _, nonce := range nonces[b] {
			if l.spent[nonce] != "" {
				paid++
			}
		}
		if paid > 1 {
			t.Errorf("seed %d, confirm %v: a buyer paid %d times for one answer", seed, confirm, paid)
		}
		if paid == 1 && !answered[b] && l.spent[nonces[b][len(nonces[b])-1]] != "" {
			if try(b); !answered[b] {
				t.Errorf("seed %d, confirm %v: a buyer who paid has no answer", seed, confirm)
			}
		}
	}
	if len(l.named) > limit {
		t.Errorf("seed %d, confirm %v: %d transactions, the limit is %d", seed, confirm, len(l.named), limit)
	}
	if err := replica.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func nonceOf(body []byte) (nonce string, ends time.Time) {
	var request struct {
		PaymentPayload struct{ Payload x402.ExactPayload }
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	a := request.PaymentPayload.Payload.Authorization
	seconds, _ := strconv.ParseInt(a.ValidBefore, 10, 64)
	return a.Nonce, time.Unix(seconds, 0)
}

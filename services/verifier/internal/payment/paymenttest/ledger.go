package paymenttest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// Ledger opens an empty ledger in memory that uses the clock now.
func Ledger(t testing.TB, now func() time.Time) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), "sqlite::memory:", ledger.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// owner of the payments that Begin and Sell make.
const owner = "seller"

// Begin begins the sale of an answer at a moment, with a payment of that payer and name, where so many settlements are
// free in the month. It is under way for a day.
func Begin(
	l *ledger.Ledger, now time.Time, payer, name string, answer []byte, limit int,
) (key payment.Key, err error) {
	ctx, until := context.Background(), now.Add(24*time.Hour)
	if err := l.Heartbeat(ctx, owner, until); err != nil {
		return key, err
	}
	r := payment.Record{
		Key:   payment.Key{Network: "eip155:8453", Asset: "0xasset", Payer: payer, Nonce: "0x" + name},
		Owner: owner, Deadline: until, Plain: true,
		Payment: sha256.Sum256([]byte("payment " + name)), Request: sha256.Sum256([]byte("request " + name)),
		Amount: "10000", ValidBefore: now.Add(time.Minute),
	}
	if _, won, err := l.Claim(ctx, r); err != nil || !won {
		return key, fmt.Errorf("claim %s: %v, %w", name, won, err)
	}
	sold, duplicate, err := l.Begin(ctx, r.Key, owner, payment.Settlement{
		Request: r.Request, Answer: answer, Month: payment.Month(now), Limit: limit, Deadline: until,
	})
	if err == nil && (duplicate != nil || sold.String() != string(answer)) {
		err = fmt.Errorf("began with %q, %v", sold, duplicate)
	}
	return r.Key, err
}

// Sell begins a sale as Begin does, of one payer and with no limit, and ends it with the outcome.
func Sell(l *ledger.Ledger, now time.Time, name string, answer []byte, o payment.Outcome) error {
	key, err := Begin(l, now, "0xpayer", name, answer, 1<<30)
	if err == nil {
		_, err = l.Apply(context.Background(), key, payment.Verdict(o))
	}
	return err
}

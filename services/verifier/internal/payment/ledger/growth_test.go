package ledger

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// grown opens a ledger with so many payments of the last twelve months: of ten
// thousand payers, most of them settled, one in a hundred dead, with the answers of
// the last thirty days.
func grown(b *testing.B, url string, payments int) *Ledger {
	b.Helper()
	l, err := Open(b.Context(), url, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	year := int64(365 * 24 * time.Hour / time.Millisecond)
	first := time.Now().UnixMilli() - year
	numbers, blob := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)", "zeroblob(%d)"
	if l.db.Dialect == sqldb.Postgres {
		numbers, blob = "WITH n AS (SELECT generate_series(1, %d) AS i)", "decode(repeat('00', %d), 'hex')"
	}
	digest, answer := fmt.Sprintf(blob, 32), fmt.Sprintf(blob, 3000)
	for _, statement := range []string{
		fmt.Sprintf("INSERT INTO payments (network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource, amount, pay_to, valid_before, month, tx, reason, claimed, changed, check_at, client) "+
			numbers+` SELECT 'eip155:8453', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', '0x0000000000000000000000000000000000' || (i %% 10000 + 100000), '0x00000000000000000000000000000000000000000000000000000000' || (i + 10000000),
			CASE WHEN i %% 100 = 0 THEN 'dead' ELSE 'settled' END, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 1, `+digest+", "+digest+`, '', 'https://seller.example/v1/verify/base-transaction', '10000', '0x00000000000000000000000000000000000050A5', 1,
			CASE WHEN i %% 200 = 0 THEN '' ELSE '2026-01' END, '0x0000000000000000000000000000000000000000000000000000000000000000', CASE WHEN i %% 200 = 0 THEN 'authorization_expired_unspent' ELSE '' END,
			%d + i * %d, 1, NULL, 'client' || (i %% 3000) FROM n`, payments, first, year/int64(payments)),
		fmt.Sprintf("INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, "+answer+" FROM payments WHERE state = 'settled' AND claimed > %d", time.Now().Add(-30*24*time.Hour).UnixMilli()),
		"ANALYZE",
	} {
		if l.db.Dialect == sqldb.SQLite && statement == "ANALYZE" {
			continue // no operator does
		}
		if _, err := l.db.Writer.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Heartbeat(b.Context(), "me", time.Now().Add(24*time.Hour)); err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkLedgerGrown measures what a sale and an operator wait for while the ledger
// grows.
func BenchmarkLedgerGrown(b *testing.B) {
	fresh := map[string]func(testing.TB) string{"sqlite": sqldbtest.SQLite, "postgres": sqldbtest.Postgres}
	for _, backend := range []string{"sqlite", "postgres"} {
		for _, payments := range []int{1_000, 1_000_000} {
			l := grown(b, fresh[backend](b), payments)
			var n atomic.Int64
			run := func(name string, do func(ctx context.Context) error) {
				b.Run(fmt.Sprintf("%s/%d/%s", backend, payments, name), func(b *testing.B) {
					for b.Loop() {
						if err := do(context.Background()); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			b.Run(fmt.Sprintf("%s/%d/sale", backend, payments), func(b *testing.B) {
				b.SetParallelism(32)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := sale(l, n.Add(1)); err != nil {
							b.Error(err)
						}
					}
				})
			})
			old := payment.Key{
				Network: "eip155:8453", Asset: "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
				Payer: "0x0000000000000000000000000000000000100007", Nonce: "0x0000000000000000000000000000000000000000000000000000000010000007",
			}
			run("get", func(ctx context.Context) error { _, err := l.Get(ctx, old); return err })
			run("list", func(ctx context.Context) error { _, err := l.List(ctx, payment.Filter{Limit: 100}); return err })
			run("list-dead", func(ctx context.Context) error {
				_, err := l.List(ctx, payment.Filter{State: payment.Dead, Limit: 100})
				return err
			})
			run("list-unknown", func(ctx context.Context) error {
				_, err := l.List(ctx, payment.Filter{State: payment.Unknown})
				return err
			})
			run("sum", func(ctx context.Context) error { _, err := l.Totals(ctx, payment.Filter{}); return err })
			run("status", func(ctx context.Context) error { _, err := l.QuotaStatus(ctx, "2026-11"); return err })
			run("ended", func(ctx context.Context) error {
				_, err := l.Ended(ctx, time.Now(), 100, time.Now())
				return err
			})
			run("prune-nothing", func(ctx context.Context) error { return l.Prune(ctx, time.Now().Add(-60*24*time.Hour)) })
			began := time.Now()
			if err := l.Prune(context.Background(), time.Now().Add(-time.Hour)); err != nil {
				b.Fatal(err)
			}
			b.Logf("%s/%d: prune of a month's answers took %v", backend, payments, time.Since(began))
		}
	}
}

func sale(l *Ledger, n int64) error {
	ctx, now := context.Background(), time.Now()
	key := payment.Key{Network: "eip155:8453", Asset: "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", Payer: fmt.Sprintf("0x%040d", 100000+n%10000), Nonce: fmt.Sprintf("0x%064d", n)}
	if _, err := l.History(ctx, key.Payer, fmt.Sprint("c", n%64), payment.Day(now)); err != nil {
		return err
	}
	_, _, err := l.Claim(ctx, payment.Record{Key: key, Owner: "me", Deadline: now.Add(time.Hour), Amount: "10000", Client: fmt.Sprint("c", n%64), Resource: "r", PayTo: "p", ValidBefore: now})
	if err != nil {
		return err
	}
	s := payment.Settlement{Answer: make([]byte, 3000), Month: payment.Month(now), Limit: 1 << 30, Deadline: now.Add(time.Hour), Caps: payment.Caps{Since: payment.Day(now), Payer: 1000, Client: 1000}}
	if _, err := l.Begin(ctx, key, "me", s); err != nil {
		return err
	}
	_, err = l.Finish(ctx, key, payment.Outcome{State: payment.Settled, Transaction: fmt.Sprintf("0x%064d", n)})
	return err
}

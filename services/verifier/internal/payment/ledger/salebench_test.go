package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// BenchmarkSale compares the writes of a sale with and without the log of receipts, turn
// by turn: the medians, and that of the differences.
func BenchmarkSale(b *testing.B) {
	text, err := os.ReadFile("../../../../../pkg/receipt/testdata/vectors/base/response.json")
	if err != nil {
		b.Fatal(err)
	}
	doc, err := receipt.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		b.Fatal(err)
	}
	answer := func(n int) []byte {
		first, second := sha256.Sum256(fmt.Append(nil, n)), sha256.Sum256(fmt.Append(nil, n, "2"))
		other := base64.StdEncoding.EncodeToString(append(first[:], second[:]...))
		return bytes.Replace(compact.Bytes(), []byte(doc.Signature.Value), []byte(other), 1)
	}
	for _, backend := range []string{"sqlite", "postgres"} {
		b.Run(backend, func(b *testing.B) {
			ctx := context.Background()
			fresh := map[string]func(testing.TB) string{"sqlite": sqldbtest.SQLite, "postgres": sqldbtest.Postgres}[backend]
			plain, err := ledger.Open(ctx, fresh(b), ledger.Options{Now: time.Now})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = plain.Close() })
			logged, err := ledger.Open(ctx, fresh(b), ledger.Options{Now: time.Now, Log: true})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = logged.Close() })
			var took [2][]float64
			var more []float64
			sold := 0
			for b.Loop() {
				sold++
				for i, l := range []*ledger.Ledger{plain, logged} {
					began := time.Now()
					if err := writeSale(ctx, l, sold, answer(sold)); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], float64(time.Since(began).Nanoseconds())/1000)
				}
				more = append(more, took[1][sold-1]-took[0][sold-1])
			}
			for unit, figures := range map[string][]float64{"µs/sale": took[0], "µs/logged-sale": took[1], "µs-more": more} {
				slices.Sort(figures)
				b.ReportMetric(figures[len(figures)/2], unit)
			}
		})
	}
}

// writeSale claims, begins and finishes one payment.
func writeSale(ctx context.Context, l *ledger.Ledger, n int, answer []byte) error {
	key := payment.Key{Network: "n", Asset: "a", Payer: "p", Nonce: fmt.Sprint(n)}
	r := payment.Record{Key: key, Owner: "me", Deadline: time.Now().Add(time.Hour), Amount: "1", Client: "client", Around: "around", Plain: true, Request: sha256.Sum256([]byte(key.Nonce))}
	if n == 1 {
		if err := l.Heartbeat(ctx, "me", time.Now().Add(time.Hour)); err != nil {
			return err
		}
	}
	if _, _, err := l.Claim(ctx, r); err != nil {
		return err
	}
	if _, _, err := l.Begin(ctx, key, "me", payment.Settlement{Request: r.Request, Answer: answer, Month: "2026-11", Limit: 1 << 30, Deadline: r.Deadline}); err != nil {
		return err
	}
	_, err := l.Apply(ctx, key, payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0x1"}))
	return err
}

package logsql_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// BenchmarkSequence gives entries their places, on disk, in writes of the usual size.
func BenchmarkSequence(b *testing.B) {
	for backend, url := range sqldbtest.URLs(b) {
		b.Run(backend, func(b *testing.B) {
			l := openProcess(b, url).Store
			sequence(b, l, 100)
			made := 0
			for b.Loop() {
				var entries [][]byte
				for range l.Portion() {
					made++
					e, err := receiptlog.EntryOfAnswer(signed(fmt.Sprint(made)))
					if err != nil {
						b.Fatal(err)
					}
					entries = append(entries, e.Bytes())
				}
				heads, err := l.Heads(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := l.Extend(context.Background(), 1, heads[0].Size, entries); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(made)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// BenchmarkHashes reads as many hashes as a proof needs, others each time.
func BenchmarkHashes(b *testing.B) {
	for backend, url := range sqldbtest.URLs(b) {
		b.Run(backend, func(b *testing.B) {
			l := openProcess(b, url).Store
			var entries [][]byte
			for i := range 3000 {
				e, err := receiptlog.EntryOfAnswer(signed(fmt.Sprint(i)))
				if err != nil {
					b.Fatal(err)
				}
				entries = append(entries, e.Bytes())
			}
			if _, err := l.Extend(context.Background(), 1, 0, entries); err != nil {
				b.Fatal(err)
			}
			for at := int64(0); b.Loop(); at += 7 {
				var ids []int64
				for i := range int64(20) {
					ids = append(ids, tlog.StoredHashIndex(0, (at+131*i)%3000))
				}
				if _, err := l.Hashes(context.Background(), 1, ids); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEntry is what a sale computes for the log.
func BenchmarkEntry(b *testing.B) {
	text, err := os.ReadFile("../../../../../pkg/receipt/testdata/vectors/base/response.json")
	if err != nil {
		b.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		b.Fatal(err)
	}
	answer := compact.Bytes()
	for b.Loop() {
		if _, err := receiptlog.EntryOfAnswer(answer); err != nil {
			b.Fatal(err)
		}
	}
}

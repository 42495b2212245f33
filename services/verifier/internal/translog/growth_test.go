package translog_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/translog/logsql"
)

// BenchmarkGrown measures a log as it grows: what a proof, a tile and a bundle of entries
// take at the median, how many entries a second get their places, and the bytes of a proof
// with two cosignatures and of an entry in the database. Entries and hashes are random, but
// for those that get their places, and the first bytes of the leaves, which rise. Each
// size is measured once: -benchtime 1x.
func BenchmarkGrown(b *testing.B) {
	for _, backend := range []string{"sqlite", "postgres"} {
		b.Run(backend, func(b *testing.B) {
			url := sqldbtest.SQLite(b)
			if backend == "postgres" {
				url = sqldbtest.Postgres(b)
			}
			l, store := openStore(b, url, time.Now)
			log, err := translog.New(translog.Options{
				Store: store, Key: seeded("log"), Host: host, Policy: "quorum none\n", Interval: time.Second, Timeout: time.Second,
				Client: http.DefaultClient, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now,
			})
			if err != nil {
				b.Fatal(err)
			}
			g := &grown{store: store, db: l.DB(), log: log}
			for _, size := range []int64{10_000, 1_000_000, 10_000_000} {
				b.Run(strconv.FormatInt(size, 10), func(b *testing.B) { g.measure(b, size) })
			}
		})
	}
}

// grown is a log that was filled by SQL.
type grown struct {
	store *logsql.Store
	db    *sqldb.DB
	log   *translog.Log
	size  int64
}

func (g *grown) exec(b *testing.B, query string, args ...any) {
	b.Helper()
	if _, err := g.db.Writer.ExecContext(context.Background(), query, args...); err != nil {
		b.Fatal(err)
	}
}

// measure fills the log up to a size and measures it.
func (g *grown) measure(b *testing.B, size int64) {
	if g.size >= size {
		return // testing looks whether once was long enough
	}
	ctx := context.Background()
	g.fill(b, size)
	g.publish(b)
	full := func(level int) receiptlog.Tile {
		return receiptlog.Tile{Level: level, Index: rand.Int64N(size / 256), Width: 256}
	}
	leaves, bytes := g.leaves(b, repeats), 0
	b.ReportMetric(median(b, func() error {
		proof, err := g.log.Proof(ctx, 1, leaves[0])
		leaves = leaves[1:]
		bytes = len(proof)
		return err
	}), "µs/proof")
	b.ReportMetric(float64(bytes), "bytes/proof")
	b.ReportMetric(median(b, func() error { _, err := g.log.Tile(ctx, 1, full(0)); return err }), "µs/tile")
	b.ReportMetric(median(b, func() error { _, err := g.log.Tile(ctx, 1, full(receiptlog.EntriesLevel)); return err }), "µs/bundle")
	b.ReportMetric(g.bytes(b)/float64(size), "bytes/entry")
	b.ReportMetric(g.sequence(b), "entries/s")
}

// repeats is of how many calls a figure is the median.
const repeats = 301

// median returns how many microseconds something takes.
func median(b *testing.B, do func() error) float64 {
	b.Helper()
	took := make([]float64, repeats)
	for i := range took {
		began := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		took[i] = float64(time.Since(began).Nanoseconds()) / 1000
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// leaves returns so many leaves of the log.
func (g *grown) leaves(b *testing.B, n int) []tlog.Hash {
	b.Helper()
	all := make([]tlog.Hash, n)
	for i := range all {
		var leaf []byte
		at := rand.Int64N(g.size)
		if err := g.db.Writer.QueryRowContext(context.Background(), g.db.Rebind("SELECT leaf FROM log_entries WHERE log = 1 AND idx = ?"), at).Scan(&leaf); err != nil {
			b.Fatal(err)
		}
		all[i] = tlog.Hash(leaf)
	}
	return all
}

// What the fill writes for numbers i.
const (
	fillEntries = `INSERT INTO log_entries (log, idx, leaf, entry, source, placed) SELECT 1, i, %s, %s, 0, 0 FROM %s`
	fillHashes  = `INSERT INTO log_hashes (log, id, hash) SELECT 1, i, %s FROM %s`
)

// fill appends random entries and hashes up to a size.
func (g *grown) fill(b *testing.B, size int64) {
	b.Helper()
	head := "chain-evidence-receipt/v1\nsha256:06e3fd8f06e3fd8f06e3fd8f06e3fd8f06e3fd8f06e3fd8f06e3fd8f06e3fd8f\n"
	leaf, entry, hash := "CAST(printf('%032d', i) AS BLOB)", "CAST('"+head+"' || substr(hex(randomblob(22)), 1, 44) || char(10) AS BLOB)", "randomblob(32)"
	numbers := "(WITH RECURSIVE numbers(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < %d) SELECT i FROM numbers)"
	if g.db.Dialect == sqldb.Postgres {
		leaf, entry = "convert_to(lpad(i::text, 32, '0'), 'UTF8')", "convert_to('"+head+"' || md5(i::text) || substr(md5(i::text), 1, 12) || chr(10), 'UTF8')"
		hash, numbers = "sha256(convert_to(i::text, 'UTF8'))", "generate_series(%d::bigint, %d::bigint - 1) AS numbers(i)"
	} else {
		g.exec(b, "PRAGMA synchronous = OFF")
	}
	const portion = 500_000 // so that the database's own log is not as long as all
	insert := func(from, to int64, query func(rows string) string) {
		for ; from < to; from += portion {
			g.exec(b, query(fmt.Sprintf(numbers, from, min(from+portion, to))))
		}
	}
	insert(g.size, size, func(rows string) string { return fmt.Sprintf(fillEntries, leaf, entry, rows) })
	insert(tlog.StoredHashIndex(0, g.size), tlog.StoredHashIndex(0, size), func(rows string) string { return fmt.Sprintf(fillHashes, hash, rows) })
	if g.db.Dialect == sqldb.Postgres {
		g.exec(b, "VACUUM ANALYZE log_entries, log_hashes") // as it does by itself in time
	}
	g.size = size
}

// reader reads the hashes as the log does.
func (g *grown) reader() tlog.HashReader {
	return tlog.HashReaderFunc(func(ids []int64) ([]tlog.Hash, error) {
		found, err := g.store.Hashes(context.Background(), 1, ids)
		out := make([]tlog.Hash, len(found))
		for i, hash := range found {
			out[i] = tlog.Hash(hash)
		}
		return out, err
	})
}

// publish makes the head that of the hashes, and publishes it as two witnesses have seen it.
func (g *grown) publish(b *testing.B) {
	b.Helper()
	root, err := tlog.TreeHash(g.size, g.reader())
	if err != nil {
		b.Fatal(err)
	}
	g.exec(b, g.db.Rebind("UPDATE log_head SET size = ?, root = ?"), g.size, root[:])
	origin, _, err := translog.Name(host, seeded("log"), 1)
	if err != nil {
		b.Fatal(err)
	}
	c := receiptlog.Checkpoint{Origin: origin, Size: g.size, Root: root}
	signer, err := receiptlog.NewLogSigner(origin, seeded("log"))
	if err != nil {
		b.Fatal(err)
	}
	note, err := c.Sign(signer)
	for _, name := range []string{"witness-1." + host, "witness-2." + host} {
		var w *receiptlog.Signer
		var line []byte
		if err == nil {
			w, err = receiptlog.NewWitnessSigner(name, seeded(name), time.Now)
		}
		if err == nil {
			line, err = c.Cosign(w)
		}
		note = append(note, line...)
	}
	if err == nil {
		err = g.store.Publish(context.Background(), 1, g.size, func([]byte) []byte { return note })
	}
	if err != nil {
		b.Fatal(err)
	}
}

// bytes returns how large the tables are.
func (g *grown) bytes(b *testing.B) (n float64) {
	b.Helper()
	query := "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
	if g.db.Dialect == sqldb.Postgres {
		query = "SELECT pg_total_relation_size('log_entries') + pg_total_relation_size('log_hashes')"
	}
	if err := g.db.Writer.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// sequence queues entries and returns how many a second get their places, on disk.
func (g *grown) sequence(b *testing.B) float64 {
	b.Helper()
	ctx, signature := context.Background(), make([]byte, ed25519.SignatureSize)
	const n = 10_000
	if g.db.Dialect == sqldb.SQLite {
		g.exec(b, "PRAGMA synchronous = FULL")
	}
	tx, err := g.db.Writer.BeginTx(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		e, err := receiptlog.NewReceiptEntry(fmt.Sprintf("sha256:%064d", 0), signature, fmt.Append(nil, g.size, i))
		leaf := e.Leaf()
		if err == nil {
			_, err = tx.ExecContext(ctx, g.db.Rebind("INSERT INTO log_queue (leaf, entry, queued, source) VALUES (?, ?, 0, 0)"), leaf[:], e.Bytes())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	began, taken := time.Now(), 0
	for taken < n {
		head, some, err := g.store.Sequence(ctx, g.store.Portion())
		if err != nil || some == 0 {
			b.Fatalf("%d of %d: %v", taken, n, err)
		}
		taken += some
		if head.Size > g.size {
			g.size = head.Size
		}
	}
	return n / time.Since(began).Seconds()
}

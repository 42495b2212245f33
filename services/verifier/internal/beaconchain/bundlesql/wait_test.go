package bundlesql

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// open opens a ledger and the store on its database.
func open(t *testing.T, url string) (*Store, *ledger.Ledger) {
	t.Helper()
	l, err := ledger.Open(t.Context(), url, ledger.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return New(l.DB(), time.Now), l
}

// held is a bundle, made and last sold at 1, that another replica is about to write as sold
// at 1000.
func held(t *testing.T) (l *Store, payments *ledger.Ledger, other *sql.Tx) {
	t.Helper()
	url := sqldbtest.Postgres(t)
	if url == "" {
		t.Skip("not installed")
	}
	l, payments = open(t, url)
	ctx := context.Background()
	_, err := l.db.Writer.ExecContext(ctx, "INSERT INTO finality_bundles (chain, block_hash, number, state, sold, queued, try_at) VALUES ('c', $1, 1, 'made', 1, 1, 1)", make([]byte, 32))
	if err == nil {
		other, err = l.db.Writer.BeginTx(ctx, nil)
	}
	if err == nil {
		_, err = other.ExecContext(ctx, "UPDATE finality_bundles SET sold = 1000")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Rollback() })
	return l, payments, other
}

// waiting returns when a transaction waits for another one.
func waiting(t *testing.T, l *Store) {
	t.Helper()
	for n := 0; n == 0; time.Sleep(time.Millisecond) {
		err := l.db.Writer.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFinality_NoSaleWaitsForAProof(t *testing.T) {
	l, payments, other := held(t)
	ctx := context.Background()
	if _, err := l.db.Writer.ExecContext(ctx, "INSERT INTO finality_queue (chain, block_hash, number, queued) VALUES ('c', $1, 1, 1)", make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 4)
	bundle := beaconchain.Bundle{SoldBlock: beaconchain.SoldBlock{Chain: "c", Number: 1}, State: beaconchain.BundlePending}
	go func() { _, err := l.TakeSold(ctx, 10); ends <- err }()
	go func() { ends <- l.KeepBundle(ctx, bundle) }()
	go func() { ends <- l.PutOff(ctx, bundle, time.Now()) }()
	go func() { ends <- l.Prune(ctx, time.UnixMilli(500)) }()
	waiting(t, l)
	claimed := make(chan error, 1)
	go func() {
		_, _, err := payments.Claim(ctx, payment.Record{Key: payment.Key{Network: "n", Asset: "a", Payer: "p", Nonce: "1"}, Owner: "o", Deadline: time.Now(), ValidBefore: time.Now(), Amount: "1"})
		claimed <- err
	}()
	select {
	case err := <-claimed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second): // it would wait for the other replica
		t.Error("a sale waits")
	}
	if err := other.Commit(); err != nil {
		t.Error(err)
	}
	for range cap(ends) {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}

func TestFinality_ABlockSoldAgainKeepsItsProof(t *testing.T) {
	l, _, other := held(t)
	pruned := make(chan error, 1)
	go func() { pruned <- l.Prune(context.Background(), time.UnixMilli(500)) }()
	waiting(t, l)
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-pruned; err != nil {
		t.Error(err)
	}
	if b, err := l.Bundle(t.Context(), "c", finality.Root{}); err != nil || b.State != beaconchain.BundleMade {
		t.Errorf("%+v, %v", b, err)
	}
}

// Proofs that have expired stay, and the others have kilobytes: none is read to be counted.
func TestPlan_FinalityProofsAreCountedInAnIndex(t *testing.T) {
	l, _ := open(t, sqldbtest.SQLite(t))
	if plan := sqldbtest.Plan(t, l.db.Reader, "EXPLAIN QUERY PLAN "+countBundlesSQL, "", ""); !strings.Contains(plan, "SEARCH finality_bundles USING COVERING INDEX finality_bundles_state") || strings.Contains(plan, "SCAN finality_") || strings.Contains(plan, "TEMP B-TREE") {
		t.Errorf("they are counted by\n%s", plan)
	}
}

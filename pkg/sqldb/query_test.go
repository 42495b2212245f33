package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestQuery_ReadsWhatWasCommittedBefore(t *testing.T) {
	for name, url := range sqldbtest.URLs(t) {
		t.Run(name, func(t *testing.T) {
			db, ctx := open(t, url), context.Background()
			other := open(t, url) // as another process has it
			query := db.Query("SELECT count FROM things WHERE name = ?")
			var n int
			if err := query.Row(ctx, "x").Scan(&n); !errors.Is(err, sql.ErrNoRows) {
				t.Errorf("no row: got %v", err)
			}
			exec(t, db, "INSERT INTO things (name, count) VALUES (?, 0)", "x")
			for want := 1; want < 100; want++ {
				exec(t, other, "UPDATE things SET count = ? WHERE name = ?", want, "x")
				if err := query.Row(ctx, "x").Scan(&n); err != nil || n != want {
					t.Fatalf("got %d, %v, want %d", n, err, want)
				}
			}
		})
	}
}

func TestQuery_MayRunAHundredTimesAtOnce(t *testing.T) {
	for name, url := range sqldbtest.URLs(t) {
		t.Run(name, func(t *testing.T) {
			db := open(t, url)
			exec(t, db, "INSERT INTO things (name, count) VALUES (?, 7)", "x")
			query := db.Query("SELECT count FROM things WHERE name = ?")
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					var n int
					if err := query.Row(context.Background(), "x").Scan(&n); err != nil || n != 7 {
						t.Errorf("got %d, %v", n, err)
					}
				})
			}
			all.Wait()
		})
	}
}

func TestQuery_OfACallerThatLeftIsNotCarriedOut(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		query := open(t, url).Query("SELECT count(*) FROM things")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var n int
		if err := query.Row(ctx).Scan(&n); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

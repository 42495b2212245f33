package sqldb_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb"
)

// counts returns what Kept reads: the count of a thing, and how often it was read.
func counts(db *sqldb.DB, reads *atomic.Int64) *sqldb.Kept[string, int] {
	query := db.Query("SELECT count FROM things WHERE name = ?")
	return sqldb.Keep(db, func(ctx context.Context, name string) (n int, err error) {
		reads.Add(1)
		err = query.Row(ctx, name).Scan(&n)
		return n, err
	})
}

func TestKept_IsReadAgainWhenTheDatabaseChanged(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		db := open(t, url)
		writers := []*sqldb.DB{db}
		if url != "sqlite::memory:" {
			writers = append(writers, open(t, url)) // as another process
		}
		exec(t, db, "INSERT INTO things (name) VALUES (?)", "a")
		var reads atomic.Int64
		kept := counts(db, &reads)
		want := 0
		for _, writer := range writers {
			for range 3 {
				exec(t, writer, "UPDATE things SET count = count + 1 WHERE name = ?", "a")
				want++
				for range 5 {
					if got, err := kept.Get(context.Background(), "a"); err != nil || got != want {
						t.Fatalf("got %d, %v; want %d", got, err, want)
					}
				}
			}
		}
		wanted := int64(want)
		if !strings.HasPrefix(url, "sqlite:") || url == "sqlite::memory:" {
			wanted *= 5 // nothing is kept
		}
		if reads.Load() != wanted {
			t.Errorf("read %d times, want %d", reads.Load(), wanted)
		}
	})
}

func TestKept_IsNeverOlderThanTheCall(t *testing.T) {
	neverOlder(t, func(*sqldb.DB) context.Context { return context.Background() })
}

// TestKept_IsNeverOlderThanSince holds that those who share a question get nothing from before their own Since.
func TestKept_IsNeverOlderThanSince(t *testing.T) {
	neverOlder(t, func(db *sqldb.DB) context.Context {
		since := db.Since(context.Background())
		runtime.Gosched() // others ask meanwhile
		return since
	})
}

// neverOlder holds that who asks with the context that begin returns gets nothing from before begin was called.
func neverOlder(t *testing.T, begin func(*sqldb.DB) context.Context) {
	t.Helper()
	onEveryBackend(t, func(t *testing.T, url string) {
		db := open(t, url)
		writer := db
		if url != "sqlite::memory:" {
			writer = open(t, url)
		}
		exec(t, db, "INSERT INTO things (name) VALUES (?)", "a")
		var reads, committed atomic.Int64
		kept := counts(db, &reads)
		var all sync.WaitGroup
		all.Go(func() {
			for n := range int64(100) {
				exec(t, writer, "UPDATE things SET count = count + 1 WHERE name = ?", "a")
				committed.Store(n + 1)
			}
		})
		for range 100 {
			all.Go(func() {
				for range 20 {
					least := committed.Load()
					got, err := kept.Get(begin(db), "a")
					if err != nil || int64(got) < least {
						t.Errorf("got %d, %v after %d commits", got, err, least)
					}
				}
			})
		}
		all.Wait()
		if got, err := kept.Get(context.Background(), "a"); err != nil || got != 100 {
			t.Errorf("got %d, %v in the end", got, err)
		}
	})
}

func TestKept_AnswersFromAnyMomentSince(t *testing.T) {
	db := open(t, "sqlite:"+t.TempDir()+"/test.db")
	exec(t, db, "INSERT INTO things (name) VALUES (?)", "a")
	var reads atomic.Int64
	kept := counts(db, &reads)
	get := func(ctx context.Context, want int) {
		t.Helper()
		if got, err := kept.Get(ctx, "a"); err != nil || got != want {
			t.Fatalf("got %d, %v; want %d", got, err, want)
		}
	}
	early := db.Since(context.Background())
	get(context.Background(), 0)
	exec(t, db, "UPDATE things SET count = 1 WHERE name = ?", "a")
	get(early, 0) // what another asked after early
	get(db.Since(context.Background()), 1)
	get(early, 1)
	get(context.Background(), 1)
	if reads.Load() != 2 {
		t.Errorf("read %d times, want 2", reads.Load())
	}
}

func TestKept_KeepsNoError(t *testing.T) {
	db := open(t, "sqlite:"+t.TempDir()+"/test.db")
	failure, fail := errors.New("no"), true
	kept := sqldb.Keep(db, func(context.Context, string) (int, error) {
		if fail {
			return 0, failure
		}
		return 1, nil
	})
	if _, err := kept.Get(context.Background(), "a"); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	fail = false
	if got, err := kept.Get(context.Background(), "a"); err != nil || got != 1 {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestKept_OfAClosedDatabaseIsRead(t *testing.T) {
	db, err := sqldb.Open(context.Background(), "sqlite:"+t.TempDir()+"/test.db", migrations())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, "INSERT INTO things (name) VALUES (?)", "a")
	var reads atomic.Int64
	kept := counts(db, &reads)
	if _, err := kept.Get(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := kept.Get(context.Background(), "a"); err == nil {
		t.Errorf("got %d from a closed database", got)
	}
}

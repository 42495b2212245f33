package backup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/deploy/internal/backup"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// householdSchema is auth's, as far as a schedule knows it.
var householdSchema = fstest.MapFS{
	"migrations/sqlite/00001_x.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE household (key TEXT PRIMARY KEY, value TEXT NOT NULL);\n")},
	"migrations/postgres/00001_x.sql": {Data: []byte("-- +goose Up\nCREATE TABLE household (key TEXT PRIMARY KEY, value TEXT NOT NULL);\n")},
}

// household are the settings of a stack without a verifier.
func household(t *testing.T, fresh func(testing.TB) string) backup.Settings {
	t.Helper()
	s := backup.Settings{Users: fresh(t), Ledger: backup.None, SigningKey: backup.None, Marks: t.TempDir()}
	if s.Users == "" {
		t.Skip("not installed")
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// noted returns what auth's database says of the last backup.
func noted(t *testing.T, url string) (value string) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url, householdSchema)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Reader.QueryRowContext(t.Context(), "SELECT coalesce(max(value), '') FROM household WHERE key = 'last_backup'").Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// clock runs a schedule without waiting, and ends it at a time, or after a hundred tries that failed. Each of
// these takes as long as slow says.
type clock struct {
	now, end time.Time
	slow     time.Duration
	back     time.Duration // by how much it is set back while a schedule waits for the first time
	failed   []string
}

func (c *clock) run(t *testing.T, s backup.Settings, folder string, keep int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := (backup.Schedule{
		Settings: s, Folder: folder, Every: 24 * time.Hour, Keep: keep, Version: version,
		Now: func() time.Time { return c.now },
		Wait: func(ctx context.Context, d time.Duration) error {
			c.now, c.back = c.now.Add(d-c.back), 0
			if !c.now.Before(c.end) {
				cancel()
			}
			return ctx.Err()
		},
		Saved: func(string, backup.Manifest) {},
		Failed: func(err error) {
			c.now = c.now.Add(c.slow)
			if c.failed = append(c.failed, err.Error()); len(c.failed) == 100 {
				cancel()
			}
		},
	}).Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, folder string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func TestSchedule_SavesEveryDayAndKeepsTheNewest(t *testing.T) {
	onBoth(t, func(t *testing.T, fresh func(testing.TB) string) {
		s, folder := household(t, fresh), t.TempDir()
		noted(t, s.Users) // makes the schema
		for _, other := range []string{"pforte-2020-01-01.tar", "notes.txt"} {
			write(t, filepath.Join(folder, other), "not ours")
		}
		write(t, filepath.Join(folder, "pforte-20200101T000000Z.tar.new"), "cut short")
		write(t, filepath.Join(folder, "pforte-backup-123", "users.db"), "of a save that was killed")
		c := &clock{now: madeAt, end: madeAt.Add(4*24*time.Hour + time.Hour)}
		c.run(t, s, folder, 3)
		want := []string{"notes.txt", "pforte-2020-01-01.tar", "pforte-20260303T120000Z.tar", "pforte-20260304T120000Z.tar", "pforte-20260305T120000Z.tar"}
		if diff := cmp.Diff(want, names(t, folder)); diff != "" {
			t.Errorf("the folder (-want +got):\n%s", diff)
		}
		if len(c.failed) > 0 {
			t.Error(c.failed)
		}
		if got := noted(t, s.Users); got != "2026-03-05T12:00:00Z" {
			t.Errorf("the last backup was %q", got)
		}
		// A start soon afterwards makes none, and one after a long sleep does at once.
		c.end = c.now.Add(time.Hour)
		c.run(t, s, folder, 3)
		if got := names(t, folder); !slices.Equal(got, want) {
			t.Errorf("after a start the folder has %v", got)
		}
		c.now = c.now.Add(30 * 24 * time.Hour)
		c.end = c.now.Add(time.Minute)
		c.run(t, s, folder, 3)
		if got := names(t, folder); got[len(got)-1] != c.end.Add(-time.Minute).Format("pforte-20060102T150405Z.tar") {
			t.Errorf("after a sleep the folder has %v", got)
		}
	})
}

func TestSchedule_TriesAgainSoonAndKeepsWhatIsThere(t *testing.T) {
	s, folder := household(t, sqldbtest.SQLite), t.TempDir()
	path, _ := sqldb.Path(s.Users)
	write(t, path, "no database")
	write(t, filepath.Join(folder, "pforte-20260201T000000Z.tar"), "an earlier one")
	c := &clock{now: madeAt, end: madeAt.Add(16 * time.Minute)}
	c.run(t, s, folder, 1)
	if len(c.failed) != 4 || !strings.Contains(c.failed[0], "save users.db") {
		t.Errorf("in 16 minutes: %q", c.failed)
	}
	if diff := cmp.Diff([]string{"pforte-20260201T000000Z.tar"}, names(t, folder)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
}

// A try that fails late, as where the disk is full, is not repeated at once.
func TestSchedule_PausesAfterATryThatTookLong(t *testing.T) {
	s, folder := household(t, sqldbtest.SQLite), t.TempDir()
	path, _ := sqldb.Path(s.Users)
	write(t, path, "no database")
	c := &clock{now: madeAt, end: madeAt.Add(time.Hour), slow: 10 * time.Minute}
	c.run(t, s, folder, 1)
	if len(c.failed) != 4 {
		t.Errorf("%d tries in an hour, of ten minutes each", len(c.failed))
	}
}

// The clock was set back: an archive from what is now the future stops no other.
func TestSchedule_PassesOverArchivesOfTheFuture(t *testing.T) {
	s, folder := household(t, sqldbtest.SQLite), t.TempDir()
	noted(t, s.Users)
	write(t, filepath.Join(folder, "pforte-20360101T000000Z.tar"), "x")
	c := &clock{now: madeAt, end: madeAt.Add(time.Hour)}
	c.run(t, s, folder, 5)
	if diff := cmp.Diff([]string{"pforte-20260301T120000Z.tar", "pforte-20360101T000000Z.tar"}, names(t, folder)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
}

func TestSchedule_TriesAgainSoonAfterTheClockWasSetBack(t *testing.T) {
	s, folder := household(t, sqldbtest.SQLite), t.TempDir()
	path, _ := sqldb.Path(s.Users)
	write(t, path, "no database")
	c := &clock{now: madeAt, end: madeAt.Add(-time.Hour), back: 2 * time.Hour}
	c.run(t, s, folder, 1)
	if len(c.failed) < 10 {
		t.Errorf("%d tries in an hour", len(c.failed))
	}
}

// They are older than what is saved now, and would have taken its place again and again.
func TestSchedule_RemovesArchivesOfTheFutureFirst(t *testing.T) {
	s, folder := household(t, sqldbtest.SQLite), t.TempDir()
	noted(t, s.Users)
	for _, name := range []string{"pforte-20360101T000000Z.tar", "pforte-20360102T000000Z.tar", "pforte-20260201T000000Z.tar"} {
		write(t, filepath.Join(folder, name), "x")
	}
	c := &clock{now: madeAt, end: madeAt.Add(time.Hour)}
	c.run(t, s, folder, 2)
	if diff := cmp.Diff([]string{"pforte-20260201T000000Z.tar", "pforte-20260301T120000Z.tar"}, names(t, folder)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
}

func TestSchedule_RefusesNoTimeAndNoArchive(t *testing.T) {
	for _, s := range []backup.Schedule{{Keep: 1}, {Every: time.Hour}} {
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("%v, %d: no error", s.Every, s.Keep)
		}
	}
}

// Its log is read by nobody until an archive is missed: only a program that ends is noticed.
func TestSchedule_EndsWhereItMayNotWrite(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no folder where root may not write")
	}
	s := backup.Schedule{Settings: household(t, sqldbtest.SQLite), Folder: "/proc", Every: time.Hour, Keep: 1, Now: time.Now}
	s.Wait = func(context.Context, time.Duration) error { return context.Canceled }
	s.Failed = func(err error) { t.Errorf("it goes on after %v", err) }
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/proc") {
		t.Errorf("it ends with %v", err)
	}
}

func TestHousehold_IsRestoredWithoutAKey(t *testing.T) {
	old := household(t, sqldbtest.SQLite)
	note(t, old.Users, "anna")
	archive := save(t, old)
	restored := household(t, sqldbtest.SQLite)
	// One that fails leaves the mark for setup, and one that succeeds takes it away.
	if _, err := restored.Restore(t.Context(), strings.NewReader("no archive")); !errors.Is(err, backup.ErrArchive) {
		t.Fatal(err)
	}
	if got := names(t, restored.Marks); !slices.Equal(got, []string{"restore-unfinished"}) {
		t.Errorf("marks: %v", got)
	}
	m, err := restored.Restore(t.Context(), strings.NewReader(string(archive)))
	if err != nil || len(m.Files) != 1 || m.Files[0].Name != "users.db" {
		t.Fatalf("%+v, %v", m, err)
	}
	if got := names(t, restored.Marks); len(got) > 0 || note(t, restored.Users, "") != "anna" {
		t.Errorf("marks: %v", got)
	}
	if _, err := restored.Restore(t.Context(), strings.NewReader(string(archive))); !errors.Is(err, backup.ErrTaken) {
		t.Errorf("over a household: %v", err)
	}
	if got := names(t, restored.Marks); len(got) > 0 {
		t.Errorf("a household that goes on has marks: %v", got)
	}
	restored.Marks = ""
	if err := restored.Validate(); err == nil || !strings.Contains(err.Error(), "RESTORE_MARKS") {
		t.Errorf("without a folder for marks: %v", err)
	}
}

// Whether its users are there is not known, so that no mark is made.
func TestHousehold_InAPostgresIsRestored(t *testing.T) {
	old := household(t, sqldbtest.Postgres)
	note(t, old.Users, "anna")
	archive := save(t, old)
	restored := household(t, sqldbtest.Postgres)
	if _, err := restored.Restore(t.Context(), strings.NewReader(string(archive))); err != nil {
		t.Fatal(err)
	}
	if got := names(t, restored.Marks); len(got) > 0 || note(t, restored.Users, "") != "anna" {
		t.Errorf("marks: %v", got)
	}
}

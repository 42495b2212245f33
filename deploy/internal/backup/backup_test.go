package backup_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/deploy/internal/backup"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

const version = "v1.2.3"

var madeAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// schema is a database with one table.
var schema = fstest.MapFS{
	"migrations/sqlite/00001_x.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE notes (text TEXT);\n")},
	"migrations/postgres/00001_x.sql": {Data: []byte("-- +goose Up\nCREATE TABLE notes (text TEXT);\n")},
}

// note writes into a database, or with "" only reads, and returns what is in it.
func note(t *testing.T, url, text string) string {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if text != "" {
		if _, err := db.Writer.ExecContext(t.Context(), db.Rebind("INSERT INTO notes VALUES (?)"), text); err != nil {
			t.Fatal(err)
		}
	}
	var all string
	query := "SELECT coalesce(string_agg(text, ','), '') FROM notes"
	if err := db.Reader.QueryRowContext(t.Context(), query).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func newSettings(t *testing.T, fresh func(testing.TB) string) backup.Settings {
	t.Helper()
	folder := t.TempDir()
	s := backup.Settings{
		Users: fresh(t), Ledger: fresh(t),
		SigningKey: filepath.Join(folder, "secrets", "key.pem"), RetiredKeys: filepath.Join(folder, "secrets", "retired.json"),
	}
	if s.Users == "" {
		t.Skip("not installed")
	}
	return s
}

// fill writes something to save.
func fill(t *testing.T, s backup.Settings) {
	t.Helper()
	note(t, s.Users, "anna")
	note(t, s.Ledger, "a payment")
	writeKey(t, s.SigningKey)
	write(t, s.RetiredKeys, "[]")
}

// writeKey writes a new key that signs receipts, or their log.
func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(text))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func save(t *testing.T, s backup.Settings) []byte {
	t.Helper()
	var archive bytes.Buffer
	if _, err := s.Save(t.Context(), &archive, version, madeAt); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func onBoth(t *testing.T, test func(t *testing.T, fresh func(testing.TB) string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, sqldbtest.SQLite) })
	t.Run("Postgres", func(t *testing.T) {
		if _, err := exec.LookPath("pg_dump"); err != nil && os.Getenv("CI") == "" {
			t.Skip("pg_dump is not installed")
		}
		test(t, sqldbtest.Postgres)
	})
}

func TestRestore_PutsBackAllWhereNothingIs(t *testing.T) {
	onBoth(t, func(t *testing.T, fresh func(testing.TB) string) {
		old := newSettings(t, fresh)
		fill(t, old)
		archive := save(t, old)
		note(t, old.Users, "later")

		restored := newSettings(t, fresh)
		m, err := restored.Restore(t.Context(), bytes.NewReader(archive))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Files) != 4 || m.Version != version || !m.MadeAt.Equal(madeAt) {
			t.Errorf("the manifest is %+v", m)
		}
		got := []string{note(t, restored.Users, ""), note(t, restored.Ledger, ""), read(t, restored.SigningKey), read(t, restored.RetiredKeys)}
		want := []string{"anna", "a payment", read(t, old.SigningKey), "[]"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("differs (-want +got):\n%s", diff)
		}
		for _, path := range []string{restored.SigningKey, restored.RetiredKeys} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
		}
		if _, err := restored.Restore(t.Context(), bytes.NewReader(archive)); !errors.Is(err, backup.ErrTaken) {
			t.Errorf("a second time: %v", err)
		}
	})
}

func TestRestore_IsRefusedWhereSomethingIs(t *testing.T) {
	onBoth(t, func(t *testing.T, fresh func(testing.TB) string) {
		old := newSettings(t, fresh)
		fill(t, old)
		archive := save(t, old)
		for what, make := range map[string]func(s backup.Settings){
			"users":  func(s backup.Settings) { note(t, s.Users, "") },
			"ledger": func(s backup.Settings) { note(t, s.Ledger, "") },
			"key":    func(s backup.Settings) { write(t, s.SigningKey, "another key") },
		} {
			s := newSettings(t, fresh)
			make(s)
			if _, err := s.Restore(t.Context(), bytes.NewReader(archive)); !errors.Is(err, backup.ErrTaken) {
				t.Errorf("over %s: %v", what, err)
			}
			left := 0
			for _, url := range []string{s.Users, s.Ledger} {
				if empty, err := sqldb.Empty(t.Context(), url); err != nil {
					t.Fatal(err)
				} else if !empty {
					left++
				}
			}
			if (what == "key") != (left == 0) {
				t.Errorf("over %s: %d databases are there", what, left)
			}
		}
	})
}

// TestRestore_RefusesAChangedArchiveWhole changes one byte at a time, and cuts.
func TestRestore_RefusesAChangedArchiveWhole(t *testing.T) {
	old := newSettings(t, sqldbtest.SQLite)
	fill(t, old)
	archive := save(t, old)
	if _, err := old.Check(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	// The last two blocks of a tar are its end, and zero.
	for at := 0; at < len(archive)-2*512; at += 997 {
		touched := bytes.Clone(archive)
		touched[at] ^= 0x20
		s := newSettings(t, sqldbtest.SQLite)
		_, err := s.Restore(t.Context(), bytes.NewReader(touched))
		if err == nil { // a byte of padding, or of the manifest that means nothing
			if again := save(t, s); !bytes.Equal(contents(t, again), contents(t, archive)) {
				t.Errorf("byte %d: something else was restored", at)
			}
			continue
		}
		if _, err := os.Stat(s.SigningKey); err == nil {
			t.Errorf("byte %d: a part was restored", at)
		}
	}
	for _, size := range []int{0, 100, 512, 5000, len(archive) / 2} {
		if _, err := old.Check(t.Context(), bytes.NewReader(archive[:size])); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
	}
}

// contents are the files of an archive without its manifest.
func contents(t *testing.T, archive []byte) []byte {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(archive))
	var all []byte
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name != "manifest.json" && !strings.HasSuffix(header.Name, ".db") { // a copy of a database differs in its counters
			all = append(all, data...)
		}
	}
}

func TestSave_RefusesWhatIsNotWhole(t *testing.T) {
	for what, spoil := range map[string]func(s backup.Settings){
		"no key":     func(s backup.Settings) { _ = os.Remove(s.SigningKey) },
		"half a key": func(s backup.Settings) { write(t, s.SigningKey, "-----BEGIN PRIVATE KEY-----") },
		"no users":   func(s backup.Settings) { path, _ := sqldb.Path(s.Users); _ = os.Remove(path) },
		"no ledger": func(s backup.Settings) {
			path, _ := sqldb.Path(s.Ledger)
			write(t, path, "this is no database")
		},
	} {
		s := newSettings(t, sqldbtest.SQLite)
		fill(t, s)
		spoil(s)
		var out bytes.Buffer
		if _, err := s.Save(t.Context(), &out, version, madeAt); err == nil || out.Len() > 0 {
			t.Errorf("%s: %d bytes, %v", what, out.Len(), err)
		}
	}
}

func TestRestore_RefusesTheOtherKindOfDatabase(t *testing.T) {
	old := newSettings(t, sqldbtest.SQLite)
	fill(t, old)
	other := old
	other.Users = "postgres://localhost/users"
	if _, err := other.Check(t.Context(), bytes.NewReader(save(t, old))); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "users.db") {
		t.Errorf("got %v", err)
	}
	other = old
	other.RetiredKeys = ""
	if _, err := other.Check(t.Context(), bytes.NewReader(save(t, old))); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "retired-keys.json") {
		t.Errorf("got %v", err)
	}
}

func TestSave_TakesRetiredKeysWhereThereAreAny(t *testing.T) {
	s := newSettings(t, sqldbtest.SQLite)
	fill(t, s)
	if err := os.Remove(s.RetiredKeys); err != nil {
		t.Fatal(err)
	}
	restored := newSettings(t, sqldbtest.SQLite)
	if m, err := restored.Restore(t.Context(), bytes.NewReader(save(t, s))); err != nil || len(m.Files) != 3 {
		t.Errorf("%+v, %v", m, err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte("manifest.json"))
	f.Add(make([]byte, 1024))
	f.Fuzz(func(t *testing.T, archive []byte) {
		s := newSettings(t, sqldbtest.SQLite)
		if _, err := s.Restore(t.Context(), bytes.NewReader(archive)); err == nil {
			t.Error("noise was restored")
		}
	})
}

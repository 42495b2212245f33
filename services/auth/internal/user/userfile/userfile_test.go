package userfile_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/user/userfile"
)

// write writes a file and returns its path.
func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// database creates a SQLite file and returns its path.
func database(t *testing.T, statements string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) userfile.File {
	t.Helper()
	file, err := userfile.Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRead_ATableAsTextInTheOrderOfIDs(t *testing.T) {
	path := database(t, `
		CREATE TABLE users (id INTEGER PRIMARY KEY, Username TEXT, display_name TEXT, password_hash TEXT, avatar_color TEXT,
			role TEXT, theme TEXT, created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
		INSERT INTO users VALUES (9, 'ben', 'Ben', 'hash 2', NULL, NULL, 'dark', NULL);
		INSERT INTO users VALUES (4, 'anna', 'Anna, die "Erste"', 'hash 1', '#123456', 'admin', 'light', '2020-01-02 03:04:05')`)
	want := userfile.File{Ignored: []string{"theme"}, Records: []user.Record{
		{Where: "row 1", ID: "4", Username: "anna", DisplayName: `Anna, die "Erste"`, PasswordHash: "hash 1", AvatarColor: "#123456", Role: "admin", CreatedAt: "2020-01-02 03:04:05"},
		{Where: "row 2", ID: "9", Username: "ben", DisplayName: "Ben", PasswordHash: "hash 2"},
	}}
	if diff := cmp.Diff(want, read(t, path)); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func TestRead_ATableWithoutIDsAndTimes(t *testing.T) {
	path := database(t, `CREATE TABLE users (password_hash, display_name, username); INSERT INTO users VALUES (x'6168', 12, 'anna')`)
	want := userfile.File{Records: []user.Record{{Where: "row 1", Username: "anna", DisplayName: "12", PasswordHash: "ah"}}}
	if diff := cmp.Diff(want, read(t, path)); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func TestRead_CSVWithItsLines(t *testing.T) {
	path := write(t, "\ufeffusername, Display_Name ,password_hash,id,notes\r\nanna,\"Anna,\nErste\",hash 1,4,x\r\n\r\nben,Ben,hash 2,,\r\n")
	want := userfile.File{Ignored: []string{"notes"}, Records: []user.Record{
		{Where: "line 2", ID: "4", Username: "anna", DisplayName: "Anna,\nErste", PasswordHash: "hash 1"},
		{Where: "line 5", Username: "ben", DisplayName: "Ben", PasswordHash: "hash 2"},
	}}
	if diff := cmp.Diff(want, read(t, path)); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func TestRead_AnotherFormIsRefusedWithoutQuotingIt(t *testing.T) {
	for what, path := range map[string]string{
		"empty":                 write(t, ""),
		"password_hash: column": write(t, "username,display_name\nanna,Anna\n"),
		"occurs twice":          write(t, "username,display_name,password_hash,USERNAME\n"),
		"wrong number":          write(t, "username,display_name,password_hash\nanna,$2b$hunter2\n"),
		"extraneous":            write(t, "username,display_name,password_hash\nanna,\"A\"nna,$2b$hunter2\n"),
		"no table users":        database(t, `CREATE TABLE people (username)`),
		"table users: username": database(t, `CREATE TABLE users (name, display_name, password_hash)`),
		"no such file":          filepath.Join(t.TempDir(), "users"),
	} {
		_, err := userfile.Read(t.Context(), path)
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestRead_AFileThatIsTooLargeIsRefused(t *testing.T) {
	many := write(t, "username,display_name,password_hash\n"+strings.Repeat("a,b,c\n", 100_001))
	large := write(t, "")
	if err := os.Truncate(large, userfile.MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{many, large} {
		if _, err := userfile.Read(t.Context(), path); !errors.Is(err, userfile.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"username,display_name,password_hash\nanna,Anna,h\n", "\ufeff", "SQLite format 3\x00" + strings.Repeat("\x00", 100), "a,\"b\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		file, err := userfile.Read(t.Context(), write(t, content))
		if err != nil && len(file.Records) > 0 {
			t.Errorf("%v, and %d users", err, len(file.Records))
		}
	})
}

package app_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/services/auth/internal/password"
)

// oldHash is the hash of a password as another program stores it.
func oldHash(t *testing.T, version, pass string) string {
	t.Helper()
	h, err := password.New(cheap)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := h.Hash(t.Context(), pass)
	if err != nil {
		t.Fatal(err)
	}
	return version + hash[4:]
}

func householdCSV(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("id,username,display_name,password_hash,role,created_at,theme\n12,mama,Mama Müller,%s,admin,2021-05-06T07:08:09Z,dark\n,kind,Kind,%s,,,light\n",
		oldHash(t, "$2b$", "mamas Kennwort"), oldHash(t, "$2y$", "kindes Kennwort"))
}

func TestImport_IsShownFirstAndDoneWithApply(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	delete(environment, "BOOTSTRAP_ADMIN_USERNAME")
	delete(environment, "BOOTSTRAP_ADMIN_PASSWORD")
	file := householdCSV(t)
	want := "ID   USERNAME  ROLE    CREATED               DISPLAY NAME\n" +
		"12   mama      admin   2021-05-06T07:08:09Z  Mama Müller\n" +
		"new  kind      member  now                   Kind\n" +
		"passed over: theme\n"
	if out := mustOperate(t, environment, file, "user", "import", "--from", "-"); out != want+"nothing was changed; --apply imports them\n" {
		t.Errorf("got %s", out)
	}
	if out := mustOperate(t, environment, "", "user", "list"); strings.Count(out, "\n") != 1 {
		t.Errorf("the dry run imported: %s", out)
	}
	if out := mustOperate(t, environment, file, "user", "import", "--from", "-", "--apply"); !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "}\nimported: 2\n") {
		t.Errorf("got %s", out)
	}
	code, out := operate(t, environment, file, "user", "import", "--from", "-", "--apply")
	if code != 1 || !strings.Contains(out, "line 2: id is taken") || !strings.Contains(out, "line 3: username is taken") || strings.Contains(out, "$2") {
		t.Errorf("a second time: %d %s", code, out)
	}
	p := start(t, environment)
	for name, pass := range map[string]string{"mama": "mamas Kennwort", "kind": "kindes Kennwort"} {
		p.loggedIn(name, pass).want(http.StatusOK, http.MethodGet, prefix+"/me", "")
	}
	if answer := p.loggedIn("mama", "mamas Kennwort").want(http.StatusOK, http.MethodGet, prefix+"/users", ""); !strings.Contains(answer, `"id":13,"username":"kind"`) || !strings.Contains(answer, `"created_at":"2021-05-06T07:08:09Z"`) {
		t.Errorf("got %s", answer)
	}
	if log := p.log.String(); strings.Contains(log, "$2") {
		t.Errorf("a hash in the log: %s", log)
	}
}

func TestImport_ReadsTheDatabaseOfARunningApplication(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	path := filepath.Join(t.TempDir(), "household.db")
	app, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Close() }()
	_, err = app.ExecContext(t.Context(), `CREATE TABLE users (id INTEGER PRIMARY KEY AUTOINCREMENT, username TEXT UNIQUE NOT NULL, display_name TEXT NOT NULL,
		password_hash TEXT NOT NULL, avatar_color TEXT DEFAULT '#007AFF', role TEXT DEFAULT 'member', created_at TEXT DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')));
		INSERT INTO users (username, display_name, password_hash, role) VALUES ('papa', 'Papa', ?, 'admin')`, oldHash(t, "$2b$", "papas Kennwort"))
	if err != nil {
		t.Fatal(err)
	}
	if out := mustOperate(t, environment, "", "user", "import", "--from", path, "--apply"); !strings.Contains(out, "1   papa") {
		t.Errorf("got %s", out)
	}
	p := start(t, environment)
	p.loggedIn("papa", "papas Kennwort")

	// The same file by standard input, once its application has stopped.
	if err := app.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if code, out := operate(t, environment, string(content), "user", "import", "--from", "-"); code != 1 || !strings.Contains(out, "row 1: id is taken") {
		t.Errorf("got %d %s", code, out)
	}
}

func TestImport_WithAFaultImportsNoUser(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	file := householdCSV(t) + "14,x,X," + oldHash(t, "$2b$", "a password") + ",,,\n"
	code, out := operate(t, environment, file, "user", "import", "--from", "-", "--apply")
	if code != 1 || !strings.Contains(out, "line 4: username is not") || !strings.Contains(out, "of 3 users none was imported; faults: 1") {
		t.Errorf("got %d %s", code, out)
	}
	if out := mustOperate(t, environment, "", "user", "list"); strings.Count(out, "\n") != 1 {
		t.Errorf("imported: %s", out)
	}
	members := bytes.ReplaceAll([]byte(householdCSV(t)), []byte(",admin,"), []byte(",member,"))
	if out := mustOperate(t, environment, string(members), "user", "import", "--from", "-"); !strings.Contains(out, "none of them is an admin") {
		t.Errorf("got %s", out)
	}
	for _, args := range [][]string{{"user", "import"}, {"user", "import", "file.csv"}, {"user", "import", "--from", "x", "--force"}} {
		if code, _ := operate(t, environment, "", args...); code != 2 {
			t.Errorf("auth %v: %d", args, code)
		}
	}
	if code, out := operate(t, environment, "", "user", "import", "--from", filepath.Join(t.TempDir(), "none.db")); code != 1 || !strings.Contains(out, "no such file") {
		t.Errorf("got %d %s", code, out)
	}
}

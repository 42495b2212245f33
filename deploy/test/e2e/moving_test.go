package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/pforte/pforte/pkg/sqldb" // the driver of the application's database

	"github.com/pforte/pforte/deploy/internal/layout"
)

// The users of an application that was used without Pforte, with hashes as other bcrypt programs write them ($2b$, and $2y$ of PHP).
const existingUsers = `
	CREATE TABLE users (
		id INTEGER PRIMARY KEY AUTOINCREMENT, username TEXT NOT NULL UNIQUE, display_name TEXT NOT NULL, password_hash TEXT NOT NULL,
		avatar_color TEXT NOT NULL DEFAULT '#007AFF', role TEXT NOT NULL DEFAULT 'member',
		created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')), theme TEXT);
	INSERT INTO users (id, username, display_name, password_hash, role, created_at) VALUES
		(1, 'petra', 'Petra', '$2b$10$` + petraHash + `', 'admin', '2021-03-04T05:06:07Z'),
		(4, 'paul', 'Paul', '$2y$08$` + paulHash + `', 'member', '2022-08-09 10:11:12')`

const (
	petraPassword, petraHash = "petras altes Kennwort", "abcdefghijklmnopqrstuu.e2MKbTI7juIRqWpzUEBdB0FcK5K16C"
	paulPassword, paulHash   = "pauls altes Kennwort", "abcdefghijklmnopqrstuuLkwVNmDLJpptz5phTM7uOaaYPTw99ky"
)

// TestImport_TakesUsersOfAnExistingApplication does what the page moving.md says, with the
// frontend as a folder of files and as a server of its own.
func TestImport_TakesUsersOfAnExistingApplication(t *testing.T) {
	const page, script = "<!doctype html><title>Haushalt</title>", "console.log('lists')"
	files := t.TempDir()
	for name, content := range map[string]string{"index.html": page, "lists.js": script} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(files)))
	t.Cleanup(server.Close)
	app := newApp()
	t.Cleanup(app.Close)
	for setting, value := range map[string]string{"FRONTEND_ROOT": files, "FRONTEND_UPSTREAM": server.Listener.Addr().String()} {
		t.Run(setting, func(t *testing.T) {
			w := newWorld(t, options{change: func(l *layout.Layout) {
				l.Extra["pforte-proxy"] = map[string]string{setting: value, "APP_UPSTREAM": app.Listener.Addr().String()}
				l.Extra["auth"] = map[string]string{"BOOTSTRAP_ADMIN_USERNAME": "", "BOOTSTRAP_ADMIN_PASSWORD_FILE": ""}
			}})
			old := existingDatabase(t)
			if out := w.authCommand(t, "user", "import", "--from", old); !strings.Contains(out, "nothing was changed") || strings.Contains(out, "$2") {
				t.Fatalf("the dry run prints %s", out)
			}
			newBrowser(t, w.PublicURL).request("POST", "/api/v1/auth/login", credentials("petra", petraPassword)).want(t, 401, nil)
			if out := w.authCommand(t, "user", "import", "--from", old, "--apply"); !strings.Contains(out, "imported: 2") {
				t.Fatalf("the import prints %s", out)
			}
			w.useApplication(t, page, script)
		})
	}
}

// useApplication uses the application as its users do.
func (w *world) useApplication(t *testing.T, page, script string) {
	t.Helper()
	b := newBrowser(t, w.PublicURL)
	if got := b.request("GET", "/", "").want(t, 200, nil); string(got.body) != page {
		t.Errorf("the page is %s", got.body)
	}
	if got := b.request("GET", "/lists.js", "").want(t, 200, nil); string(got.body) != script {
		t.Errorf("the script is %s", got.body)
	}
	b.request("GET", "/api/v1/lists", "").want(t, 401, nil)

	if user, want := b.login("petra", petraPassword), (member{ID: 1, Username: "petra", DisplayName: "Petra", AvatarColor: "#007AFF", Role: "admin"}); user != want {
		t.Errorf("petra is %+v", user)
	}
	var seen received
	b.request("POST", "/api/v1/lists", `{"milk":2}`).want(t, 200, &seen)
	if fmt.Sprint(seen.ID, seen.Name, seen.Role) != "[1] [petra] [admin]" || strings.Contains(seen.Cookie, "svc.sid") {
		t.Errorf("the application received %+v", seen)
	}
	// The next member has an id that no imported one has, and none had before.
	if next := b.create("oma", "omas neues Kennwort"); next.ID != 5 {
		t.Errorf("the next id is %d", next.ID)
	}
	paul := newBrowser(t, w.PublicURL)
	paul.login("paul", paulPassword)
	paul.request("GET", "/api/v1/lists", "").want(t, 200, &seen)
	if fmt.Sprint(seen.ID, seen.Name, seen.Role) != "[4] [paul] [member]" {
		t.Errorf("the application received %+v", seen)
	}
	change := fmt.Sprintf(`{"current_password":%q,"new_password":"pauls neues Kennwort"}`, paulPassword)
	paul.request("PATCH", "/api/v1/auth/me/password", change).want(t, 200, nil)
	newBrowser(t, w.PublicURL).login("paul", "pauls neues Kennwort")
}

// existingDatabase returns the path of the application's own database.
func existingDatabase(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "existing.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), existingUsers); err != nil {
		t.Fatal(err)
	}
	return path
}

// authCommand runs a command of auth with the settings of the running one, and
// returns what it prints.
func (w *world) authCommand(t *testing.T, args ...string) string {
	t.Helper()
	program := w.Auth()
	cmd := exec.CommandContext(t.Context(), program.Path, args...)
	cmd.Env = program.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("auth %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

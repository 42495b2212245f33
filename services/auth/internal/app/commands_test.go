package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/app"
)

// operate runs a command and returns its exit code and all that it prints.
func operate(t *testing.T, environment map[string]string, stdin string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := app.Run(context.Background(), app.Process{Passwords: cheap, Process: service.Process{
		Args: args, Getenv: func(name string) string { return environment[name] }, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &out, Version: "v1.2.3",
	}})
	return code, out.String()
}

func mustOperate(t *testing.T, environment map[string]string, stdin string, args ...string) string {
	t.Helper()
	code, out := operate(t, environment, stdin, args...)
	if code != 0 {
		t.Fatalf("auth %s: %d %s", strings.Join(args, " "), code, out)
	}
	return out
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addrs, err := freeport.Addrs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}

func TestOperator_ManagesUsersWithoutTheService(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	delete(environment, "SESSION_SECRET") // which no command needs
	mustOperate(t, environment, "", "migrate")
	mustOperate(t, environment, "correct horse\n", "user", "add", "anna", "--admin", "--display-name", "Anna Ärmel", "--color", "#123")
	mustOperate(t, environment, "battery staple\r\nsecond line", "user", "add", "--display-name=Otto", "otto")
	if out := mustOperate(t, environment, "", "user", "list"); !strings.Contains(out, "Anna Ärmel") || !strings.Contains(out, "otto") || strings.Contains(out, "$2a$") {
		t.Errorf("got %s", out)
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(mustOperate(t, environment, "", "user", "list", "--json")), &list); err != nil || len(list) != 2 || list[0]["role"] != "admin" || list[0]["avatar_color"] != "#123" {
		t.Errorf("got %v, %v", list, err)
	}
	mustOperate(t, environment, "", "user", "rename", "otto", "ottilie")
	mustOperate(t, environment, "", "user", "rename", "ottilie", "otto")
	mustOperate(t, environment, "", "user", "disable", "otto")
	mustOperate(t, environment, "", "user", "enable", "otto")
	if out := mustOperate(t, environment, "", "user", "last-day", "otto", "2099-12-31"); !strings.Contains(out, "2099-12-31") {
		t.Errorf("got %s", out)
	}
	if code, out := operate(t, environment, "", "user", "role", "otto", "admin"); code != 1 || !strings.Contains(out, "no end") {
		t.Errorf("a guest is an admin: %d %s", code, out)
	}
	mustOperate(t, environment, "", "user", "last-day", "otto")
	mustOperate(t, environment, "", "household", "name", "Familie Kern")
	mustOperate(t, environment, "", "user", "role", "otto", "admin")
	mustOperate(t, environment, "", "user", "delete", "anna")
	for what, args := range map[string][]string{
		"admin must remain": {"user", "disable", "otto"},
		"last admin":        {"user", "delete", "otto"}, "the last admin": {"user", "role", "otto", "member"}, "no such user": {"user", "delete", "anna"},
		"role is neither": {"user", "role", "otto", "owner"}, "username is not": {"user", "add", "x"}, "no password": {"user", "add", "lena"},
	} {
		if code, out := operate(t, environment, "", args...); code != 1 || !strings.Contains(out, what) {
			t.Errorf("auth %v: %d %s", args, code, out)
		}
	}
	for stdin, what := range map[string]string{"short\n": "fewer than 8", strings.Repeat("x", 1025): "more than 1024", strings.Repeat("x", 100000): "more than 1024"} {
		if code, out := operate(t, environment, stdin, "user", "add", "lena"); code != 1 || !strings.Contains(out, what) {
			t.Errorf("%.10q: %d %s", stdin, code, out)
		}
	}
	if code, out := operate(t, environment, "long enough", "user", "add", "OTTO"); code != 1 || !strings.Contains(out, "taken") {
		t.Errorf("got %d %s", code, out)
	}
}

func TestOperator_ReachesLiveSessionsAtOnce(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	p := start(t, environment)
	mustOperate(t, environment, "battery staple", "user", "add", "otto")
	otto := p.loggedIn("otto", "battery staple")
	otto.want(http.StatusForbidden, http.MethodGet, prefix+"/users", "")
	mustOperate(t, environment, "", "user", "role", "otto", "admin")
	otto.want(http.StatusOK, http.MethodGet, prefix+"/users", "")
	mustOperate(t, environment, "", "user", "role", "otto", "member")
	otto.want(http.StatusForbidden, http.MethodGet, prefix+"/users", "")

	mustOperate(t, environment, "another password", "user", "passwd", "otto")
	otto.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
	phone, laptop := p.loggedIn("otto", "another password"), p.loggedIn("otto", "another password")
	list := mustOperate(t, environment, "", "sessions", "list", "otto")
	lines := strings.Split(strings.TrimSpace(list), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "Go-http-client") {
		t.Fatalf("got %s", list)
	}
	key, _, _ := strings.Cut(lines[1], " ")
	mustOperate(t, environment, "", "sessions", "revoke", "otto", key)
	if rows := mustOperate(t, environment, "", "audit"); !strings.Contains(rows, "session_ended") {
		t.Errorf("the audit has no row: %s", rows)
	}
	first, _ := phone.request(http.MethodGet, prefix+"/me", "")
	second, _ := laptop.request(http.MethodGet, prefix+"/me", "")
	if first+second != http.StatusOK+http.StatusUnauthorized {
		t.Errorf("one of two sessions was ended: %d and %d", first, second)
	}
	if out := mustOperate(t, environment, "", "sessions", "revoke", "otto"); !strings.Contains(out, "ended: 1") {
		t.Errorf("got %s", out)
	}
	for _, args := range [][]string{{"sessions", "revoke", "otto", "abc"}, {"sessions", "list", "nobody"}, {"sessions", "revoke", "nobody"}} {
		if code, _ := operate(t, environment, "", args...); code != 1 {
			t.Errorf("auth %v: %d", args, code)
		}
	}
	laptop = p.loggedIn("otto", "another password")
	mustOperate(t, environment, "", "user", "delete", "otto")
	laptop.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
}

func TestCommands_MalformedLinesAreReported(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"users"},
		{"user"},
		{"user", "rename"},
		{"user", "add"},
		{"user", "add", "anna", "my password"},
		{"user", "add", "--root", "anna"},
		{"user", "role", "anna"},
		{"user", "list", "all"},
		{"sessions"},
		{"sessions", "list"},
		{"serve", "now"},
		{"--verbose"},
		{"migrate", "down"},
		{""},
	} {
		if code, out := operate(t, nil, "", args...); code != 2 || !strings.Contains(out, "auth --help") {
			t.Errorf("auth %v: %d %s", args, code, out)
		}
	}
}

func TestHelp_AndVersionArePrinted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}, {"user", "--help"}, {"user", "add", "--help"}, {"serve", "-h"}, {"sessions", "help"}} {
		if out := mustOperate(t, nil, "", args...); !strings.Contains(out, "auth user add NAME") {
			t.Errorf("auth %v: %s", args, out)
		}
	}
	for _, args := range [][]string{{"--version"}, {"version"}} {
		if out := mustOperate(t, nil, "", args...); out != "auth v1.2.3\n" {
			t.Errorf("auth %v: %s", args, out)
		}
	}
}

func TestCommands_AreAllInTheHelp(t *testing.T) {
	t.Parallel()
	help := mustOperate(t, nil, "", "--help")
	for _, name := range app.Commands() {
		if !strings.Contains(help, "auth "+name) && !strings.Contains(help, "auth ["+name+"]") {
			t.Errorf("auth %s is not in the help", name)
		}
	}
}

func TestHealthcheck_WorksInAContainer(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	p := start(t, settings(t, server.Addr()))
	environment := map[string]string{"ADDR": strings.TrimPrefix(p.main, "http://")}
	mustOperate(t, environment, "", "healthcheck")
	server.Kill()
	if code, _ := operate(t, environment, "", "healthcheck"); code != 1 {
		t.Errorf("without Redis: %d", code)
	}
}

// The stores are not there, and no database is made.
func TestCheck_NamesWhatIsWrongBeforeServeWould(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "auth.db")
	right := []string{"DATABASE_URL", "sqlite:" + database, "PUBLIC_URL", "https://home.example.org"}
	out := mustOperate(t, settings(t, "127.0.0.1:1", append(right, "TZ", "Berlin")...), "", "check")
	if !strings.Contains(out, "TZ is not the name of a zone") {
		t.Errorf("it warns of nothing: %s", out)
	}
	for name, value := range map[string]string{
		"SESSION_LIFETIME": "7d", "PASSKEY_RP_ID": "other.example", "NOTIFY_URL": "ftp://x", "DATA_KEY_FILE": "/nonexistent",
	} {
		code, out := operate(t, settings(t, "127.0.0.1:1", append(right, name, value)...), "", "check")
		if code != 1 || !strings.Contains(out, name) {
			t.Errorf("%s=%s: %d, %s", name, value, code, out)
		}
	}
	if code, _ := operate(t, settings(t, "127.0.0.1:1", right...), "", "check", "now"); code != 2 {
		t.Errorf("with a word more: %d", code)
	}
	if _, err := os.Stat(database); err == nil {
		t.Error("it made a database")
	}
}

func TestOperator_IsInTheAudit(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	out := mustOperate(t, environment, adminPass+"\n", "user", "add", adminName, "--admin")
	out += mustOperate(t, environment, "username,display_name,password_hash\notto,x,"+oldHash(t, "$2a$", oldPass)+"\n", "user", "import", "--from", "-", "--apply")
	out += mustOperate(t, environment, newPass+"\n", "user", "passwd", "otto")
	out += mustOperate(t, environment, "", "user", "role", "otto", "admin")
	out += mustOperate(t, environment, "", "sessions", "revoke", "otto")
	out += mustOperate(t, environment, "", "user", "delete", "otto")
	for _, want := range []string{
		`"event":"user_created","actor":"cli","os_user":`, `"event":"users_imported",`, `"event":"password_changed",`, `"event":"role_changed",`, `"event":"sessions_revoked",`, `"event":"user_deleted",`,
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%s is not once in %s", want, out)
		}
	}
	if strings.Contains(out, newPass) || strings.Contains(out, adminPass) || strings.Contains(out, "$2a$") {
		t.Errorf("there is a secret in %s", out)
	}
	if _, out := operate(t, environment, "", "user", "delete", "otto"); strings.Contains(out, `"audit"`) {
		t.Errorf("an act that failed is in the audit: %s", out)
	}
}

func TestCreateUser_ADeletedUsersNameNeedsAFlag(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	mustOperate(t, environment, adminPass+"\n", "user", "add", adminName, "--admin")
	mustOperate(t, environment, newPass+"\n", "user", "add", "otto")
	mustOperate(t, environment, "", "user", "delete", "otto")
	for _, args := range [][]string{{"user", "add", "Otto"}, {"invite", "add", "otto"}} {
		if code, out := operate(t, environment, newPass+"\n", args...); code != 1 || !strings.Contains(out, "--former") {
			t.Errorf("%q: %d %s", args, code, out)
		}
	}
	mustOperate(t, environment, "", "invite", "add", "otto", "--former")
	mustOperate(t, environment, newPass+"\n", "user", "add", "otto", "--former")
}

func TestCommands_ANameThatIsAnOptionIsNoHelp(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	mustOperate(t, environment, adminPass+"\n", "user", "add", adminName, "--admin")
	mustOperate(t, environment, newPass+"\n", "user", "add", "--", "--help")
	for _, args := range [][]string{
		{"user", "delete", "--help"},
		{"user", "delete", "-rf"},
		{"user", "passwd", "--help"},
		{"user", "role", "--help", "admin"},
		{"user", "reset-link", "--help"},
		{"user", "reset-factor", "-help"},
		{"sessions", "revoke", "--help"},
		{"sessions", "revoke", "-h", "x"},
	} {
		if code, out := operate(t, environment, newPass+"\n", args...); code != 2 || !strings.Contains(out, "auth --help") {
			t.Errorf("%q: %d %s", args, code, out)
		}
	}
	mustOperate(t, environment, "", "sessions", "revoke", "--", "--help")
	mustOperate(t, environment, "", "user", "delete", "--", "--help")
}

package app_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/token"
)

// squeezed returns a table with one space between its columns.
func squeezed(table string) string {
	return regexp.MustCompile(` {2,}`).ReplaceAllString(table, " ")
}

func TestOperator_EditsApplicationsAndGroups(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t), "SESSION_SECURE", "")
	mustOperate(t, environment, "battery staple", "user", "add", "otto")
	mustOperate(t, environment, "", "group", "add", "kids", "--name", "Kinder")
	mustOperate(t, environment, "", "group", "members", "kids", "--add", "otto")
	mustOperate(t, environment, "", "app", "add", "photos", "https://Photos.example.org:443", "--name", "Fotos", "--rule", "group:kids", "--second-factor", "--tokens", "--position", "2")
	mustOperate(t, environment, "", "app", "add", "notes", "/notes/")
	want := "SLUG URL RULE SECOND FACTOR TOKENS INTERNAL ADDRESS NAME\nnotes /notes/ login false false - notes\nphotos https://photos.example.org group:kids true true - Fotos\n"
	if out := squeezed(mustOperate(t, environment, "", "app", "list")); out != want {
		t.Errorf("got\n%s, want\n%s", out, want)
	}
	if out := squeezed(mustOperate(t, environment, "", "group", "list")); out != "SLUG NAME MEMBERS\nkids Kinder otto\n" {
		t.Errorf("got %s", out)
	}
	if out := mustOperate(t, environment, "", "group", "members", "kids"); out != "otto\n" {
		t.Errorf("got %q", out)
	}

	for what, args := range map[string][]string{
		"slug is taken": {"app", "add", "photos", "/x/"}, "address is taken": {"app", "add", "x", "/notes/"}, "neither /path/": {"app", "add", "x", "http://nas.lan"}, "no such group": {"app", "set", "notes", "--rule", "group:nobody"},
		"rule is neither": {"app", "set", "notes", "--rule", "group"}, "names the group": {"group", "remove", "kids"}, "no such application": {"app", "remove", "nobody"}, "no such user": {"group", "members", "kids", "--add", "nobody"},
		"slug is not": {"group", "add", "admin"}, "slug is taken (group)": {"group", "add", "kids"},
	} {
		what, _, _ = strings.Cut(what, " (")
		if code, out := operate(t, environment, "", args...); code != 1 || !strings.Contains(out, what) {
			t.Errorf("auth %v: %d %s", args, code, out)
		}
	}
	for _, args := range [][]string{{"app", "set", "notes"}, {"app", "add", "notes"}, {"app", "set", "notes", "--position", "first"}, {"app", "add", "x", "/x/", "--url", "/y/"}, {"group", "members", "kids", "--add", "a", "--remove", "b"}, {"app", "set", "notes", "--tokens=perhaps"}} {
		if code, out := operate(t, environment, "", args...); code != 2 {
			t.Errorf("auth %v: %d %s", args, code, out)
		}
	}

	mustOperate(t, environment, "", "app", "set", "photos", "--rule", "login", "--tokens=false", "--url", "/photos/")
	if out := squeezed(mustOperate(t, environment, "", "app", "list")); !strings.Contains(out, "photos /photos/ login true false - Fotos\n") {
		t.Errorf("got %s", out)
	}
	mustOperate(t, environment, "", "group", "members", "kids", "--remove", "otto")
	mustOperate(t, environment, "", "group", "remove", "kids")
	mustOperate(t, environment, "", "app", "remove", "photos")
	environment["SESSION_SECURE"] = "false"
	mustOperate(t, environment, "", "app", "add", "nas", "http://nas.lan")

	list := mustOperate(t, environment, "", "audit")
	for _, event := range []string{"group_made", "groups_changed", "app_made", "app_changed", "app_removed", "group_removed"} {
		if !regexp.MustCompile(event + ` +operator \S`).MatchString(list) {
			t.Errorf("the audit has no %s of the operator:\n%s", event, list)
		}
	}
}

func TestOperator_SaysWhereAnApplicationIs(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	mustOperate(t, environment, "", "app", "add", "notes", "/notes/")
	mustOperate(t, environment, "", "app", "add", "root", "/")
	mustOperate(t, environment, "", "app", "route", "notes", "Notes:8080/", "--strip", "--user-header", "remote-user")
	if out := squeezed(mustOperate(t, environment, "", "app", "list")); !strings.Contains(out, "notes /notes/ login false false http://notes:8080 notes\n") {
		t.Errorf("got %s", out)
	}
	for what, args := range map[string][]string{
		"is not http://host:port": {"notes", "ftp://notes"}, "address is blocked": {"notes", "169.254.169.254:80"}, "APPS_TO": {"notes", "127.0.0.1:80"},
		"header is none": {"notes", "notes:80", "--user-header", "Host"}, "pin is not": {"notes", "https://notes", "--pin", "x"},
		"no such application": {"none", "notes:80"}, "has no route": {"root", "--remove"}, "address is neither /path/": {"root", "notes:80"},
	} {
		if code, out := operate(t, environment, "", append([]string{"app", "route"}, args...)...); code != 1 || !strings.Contains(out, what) {
			t.Errorf("auth app route %v: %d %s", args, code, out)
		}
	}
	for _, args := range [][]string{{"notes"}, {"notes", "notes:80", "--remove"}, {"notes", "--remove", "--strip"}} {
		if code, out := operate(t, environment, "", append([]string{"app", "route"}, args...)...); code != 2 {
			t.Errorf("auth app route %v: %d %s", args, code, out)
		}
	}
	mustOperate(t, environment, "", "app", "route", "notes", "--remove")
	if list := mustOperate(t, environment, "", "audit"); strings.Count(list, "app_route_set") != 2 {
		t.Errorf("the audit:\n%s", list)
	}
}

func TestOperator_RevokesAnAppToken(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	mustOperate(t, environment, "battery staple", "user", "add", "otto")
	mustOperate(t, environment, "", "app", "add", "dav", "/dav/", "--tokens")
	db, err := sqldb.Open(t.Context(), environment["DATABASE_URL"], sqlstore.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	store, text := sqlstore.New(db, time.Now, nil), token.New()
	otto, err := store.Users.ByUsername(t.Context(), "otto")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Tokens.CreateToken(t.Context(), token.Token{UserID: otto.ID, Name: "Kalender", Shown: token.Shown(text), Applications: []string{"dav"}, ReadOnly: true}, secrets.Hash(text), session.Session{}); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"token", "list"}, {"token", "list", "otto"}} {
		out := squeezed(mustOperate(t, environment, "", words...))
		if !regexp.MustCompile(`(?m)^1 otto `+text[:8]+`… dav read only \S+ for ever never Kalender$`).MatchString(out) || strings.Contains(out, text[:9]) {
			t.Errorf("auth %v: %s", words, out)
		}
	}
	mustOperate(t, environment, "", "token", "revoke", "1")
	if out := mustOperate(t, environment, "", "token", "list"); !strings.Contains(out, "revoked 2") {
		t.Errorf("got %s", out)
	}
	if _, _, _, err := store.Tokens.TokenVisitor(t.Context(), secrets.Hash(text)); err == nil {
		t.Error("the token is valid")
	}
	for _, wrong := range [][]string{{"token", "revoke", "x"}, {"token", "revoke", "99"}, {"token", "list", "nobody"}} {
		if code, out := operate(t, environment, "", wrong...); code != 1 {
			t.Errorf("%v: %d %s", wrong, code, out)
		}
	}
}

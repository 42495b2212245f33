package pages_test

import (
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/session"
)

var (
	formField = regexp.MustCompile(`name="([^"]+)"(?: [^>]*?)?(?: value="([^"]*)")?`)
	formDo    = regexp.MustCompile(`name="do" value="([^"]+)"`)
)

// TestPage_DoesNotFailForWhatPostgresCannotHold sends each field of each form with a NUL, and the others as the page has
// them.
func TestPage_DoesNotFailForWhatPostgresCannotHold(t *testing.T) {
	database := sqldbtest.Postgres(t)
	if database == "" {
		t.Skip("Postgres is not installed") // with CI set, sqldbtest fails
	}
	f := newFixtureIn(t, database)
	f.add("anna", "Anna", adminPass, "admin")
	f.add("otto", "Otto", userPass, "member")
	f.group("kids", "Kinder", "otto")
	f.application("photos", "https://photos.example.org", "login", true)
	f.application("notes", "/notes/", "login", true)
	_, invite, err := f.people.Invite(t.Context(), session.Session{}, people.NewInvite{})
	_, reset, resetErr := f.people.ResetLink(t.Context(), session.Session{}, 2)
	if err != nil || resetErr != nil {
		t.Fatal(err, resetErr)
	}
	anna := must(f.store.Users.ByID(t.Context(), 1))(t)
	key := factor.Credential{CredentialID: []byte("a credential"), RPID: "example.com", Record: "{}"}
	must(f.store.Passkeys.AddPasskey(t.Context(), 1, "Telefon", key, anna.SessionStamp, ""))(t)
	f.anna().shown("/pforte/account/tokens", "do", "create", "name", "Telefon", "app.photos", "yes", "days", "90").want(http.StatusOK)
	gone := f.browser()
	gone.headers.Set("User-Agent", "Mozilla/5.0 (Android 16; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0")
	gone.post("/pforte/login", "username", "anna", "password", adminPass).want(http.StatusSeeOther)
	gone.post("/pforte/logout").want(http.StatusSeeOther)
	f.audit.Drain()

	sent := map[string]bool{}
	for _, path := range []string{
		"/pforte/", "/pforte/login", "/pforte/second", "/pforte/reauth", "/pforte/forgot", "/pforte/join?t=" + invite, "/pforte/reset?t=" + reset,
		"/pforte/account", security, codeApp,
		"/pforte/account/tokens", "/pforte/admin/members/2", "/pforte/admin/invites", "/pforte/admin/apps/new", "/pforte/admin/apps/probe", "/pforte/admin/apps/notes", "/pforte/admin/apps/notes/icon",
		"/pforte/admin/groups", "/pforte/admin/groups/1", "/pforte/admin/security",
	} {
		b := f.anna()
		if strings.Contains(path, "?t=") || path == "/pforte/login" {
			b = f.browser()
		}
		page := b.get(path)
		at, _, _ := strings.Cut(path, "?")
		names, others := []string{"id", "return", "confirm"}, []string{}
		for _, field := range formField.FindAllStringSubmatch(page.body, -1) {
			if name := field[1]; name != "csrf" && name != "do" && !slices.Contains(names, name) {
				names, others = append(names, name), append(others, name, html.UnescapeString(field[2]))
			}
		}
		acts := []string{""}
		for _, do := range formDo.FindAllStringSubmatch(page.body, -1) {
			acts = append(acts, do[1])
		}
		for _, do := range slices.Compact(slices.Sorted(slices.Values(acts))) {
			for _, name := range names {
				fields := append(slices.Clone(others), "do", do, name, "\x00")
				if prefix, _, dotted := strings.Cut(name, "."); dotted {
					fields = append(fields, prefix+".\x00", "yes")
				}
				if got := b.post(at, fields...); got.status >= http.StatusInternalServerError {
					t.Errorf("%s, do %q, a NUL in %q: %d", at, do, name, got.status)
				} else if got.status == http.StatusUnauthorized || got.status == http.StatusTooManyRequests || at == "/pforte/" {
					f.redis.FlushAll()
					if strings.HasPrefix(at, "/pforte/a") || at == "/pforte/" || at == "/pforte/reauth" {
						b = f.anna()
					}
				}
				sent[at+" "+do+" "+name] = true
			}
		}
	}
	for _, act := range []string{security + " forget id", "/pforte/admin/members/2 change group.kids", "/pforte/account/tokens create name", "/pforte/join  username"} {
		if !sent[act] {
			t.Errorf("%q was not sent, of %d forms", act, len(sent))
		}
	}
	for _, query := range []string{
		"login?return=\x00&name=\x00&done=\x00", "join?t=\x00", "reset?t=\x00", "setup?t=\x00", "go?app=\x00&state=\x00&return=\x00", "reauth?return=\x00",
		"admin/audit?user=\x00&event=\x00&from=\x00&to=\x00&before=\x00", "admin/audit.csv?event=\x00", "admin/members/%00", "admin/apps/%00", "admin/apps/photos?probe=\x00&done=\x00", "icons/%00.png", "admin/groups/%00",
	} {
		if got := f.anna().get("/pforte/" + strings.ReplaceAll(query, "\x00", "%00")); got.status >= http.StatusInternalServerError {
			t.Errorf("%s: %d", query, got.status)
		}
	}
	if _, err := f.people.Member(t.Context(), 2); err != nil {
		t.Error("the member of the pages was deleted", err)
	}
}

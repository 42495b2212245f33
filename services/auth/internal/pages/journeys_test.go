package pages_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

var linkPath = regexp.MustCompile(`/pforte/(?:join|reset|setup)\?t=([A-Za-z0-9_-]{43})`)

// link returns the path and the token of the link that a page shows.
func (a reply) link() (path, token string) {
	a.t.Helper()
	found := linkPath.FindStringSubmatch(a.body)
	if found == nil {
		a.t.Fatalf("%s: shows no link: %s", a.what, a.text())
	}
	return found[0], found[1]
}

func TestSetUp_FirstAdminSetsTheHouseholdUp(t *testing.T) {
	f := newEmptyFixture(t)
	_, token, err := f.people.CreateSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := f.browser()
	b.get("/pforte/").leadsTo("/pforte/login?return=%2Fpforte%2F")
	b.get("/pforte/login?return=%2Fpforte%2F").want(http.StatusOK).shows("noch kein Konto", "Einrichtungslink", "docker compose run --rm setup-link", "auth setup-link").lacks(token, `name="password"`)
	path := "/pforte/setup?t=" + token
	for range 3 {
		b.do(head(t, path)).want(http.StatusOK)
		b.get(path).want(http.StatusOK).shows("Haushalt einrichten")
	}
	b.post("/pforte/setup", "t", token, "household", "Familie Kern", "username", "anna", "display_name", "Anna", "password", "short", "again", "short").
		want(http.StatusBadRequest).shows("mindestens 8 Zeichen", `value="Familie Kern"`, `value="anna"`, token)
	b.post("/pforte/setup", "t", token, "household", "Familie Kern", "username", "anna", "display_name", "Anna", "password", adminPass, "again", adminPass).leadsTo("/pforte/")
	b.get("/pforte/").want(http.StatusOK).shows("Hallo, Anna", "Familie Kern", "Mitglieder")
	f.browser().get("/pforte/login").want(http.StatusOK).shows(`name="password"`).lacks("Einrichtungslink")
	f.browser().get(path).want(http.StatusBadRequest).shows("Der Haushalt ist schon eingerichtet.", `href="/pforte/login?name=anna"`)
	f.browser().post("/pforte/setup", "t", token, "username", "evil", "display_name", "E", "password", adminPass).want(http.StatusBadRequest).shows("Der Haushalt ist schon eingerichtet.")
	f.browser().get("/pforte/setup?t=" + token[1:]).want(http.StatusNotFound).shows("Diese Seite gibt es nicht.")
	f.browser().post("/pforte/setup", "t", "other", "username", "evil", "display_name", "E", "password", adminPass).want(http.StatusNotFound)
}

func TestInvite_IsShownOnceAndUsedOnce(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	made := anna.shown("/pforte/admin/invites", "do", "invite", "display_name", "Paul", "role", "member").want(http.StatusOK).shows("Der Link wird nur jetzt angezeigt.")
	path, token := made.link()
	anna.get("/pforte/admin/invites").want(http.StatusOK).shows("Paul", "von Anna").lacks(token)
	anna.get(path).want(http.StatusOK).shows("Du bist als Anna angemeldet.")

	paul := f.browser()
	seen := paul.get(path).want(http.StatusOK).shows("Hallo Paul!", "Anna hat dich zu „Zuhause“ eingeladen.", `value="paul"`).lacks(`name="display_name"`, `name="again"`)
	if got := seen.header.Get("Referrer-Policy"); got != "strict-origin" {
		t.Errorf("the token reaches the Referer: Referrer-Policy is %q", got)
	}
	paul.post("/pforte/join", "t", token, "username", "OTTO", "password", userPass).want(http.StatusConflict).shows("schon vergeben", `id="username-why"`, `value="OTTO"`, token)
	paul.post("/pforte/join", "t", token, "username", "paul", "password", userPass, "role", "admin").
		leadsTo("/pforte/?done=joined").lacks(token)
	paul.get("/pforte/?done=joined").want(http.StatusOK).shows("Willkommen bei Zuhause", "Dein Konto ist angelegt.")
	paul.get("/pforte/").want(http.StatusOK).shows("Hallo, Paul").lacks("Willkommen bei")
	eve := f.browser()
	eve.post("/pforte/join", "t", token, "username", "eve", "display_name", "E", "password", userPass).want(http.StatusBadRequest).
		shows("Dieses Konto gibt es schon.", `href="/pforte/login?name=paul"`, "Anmelden").lacks("Bitte die Administratoren")
	eve.get("/pforte/").leadsTo("/pforte/login?return=%2Fpforte%2F")
	b := f.loggedIn("paul", userPass)
	b.get("/pforte/admin/members").want(http.StatusForbidden).shows("Diese Seite ist nur für Administratoren.")
	if strings.Contains(f.log.String(), token) {
		t.Error("the token is in the log")
	}
}

// TestLog_ActsOnPagesHaveTheNamesOfTheAPI: the README lists them for the operator's
// programs.
func TestLog_ActsOnPagesHaveTheNamesOfTheAPI(t *testing.T) {
	f := newEmptyFixture(t)
	_, token, err := f.people.CreateSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	logged := func(event string, do func()) {
		t.Helper()
		before := len(f.log.String())
		do()
		if !strings.Contains(f.log.String()[before:], `"event":"`+event+`"`) {
			t.Errorf("there is no event %s: %s", event, f.log.String()[before:])
		}
	}
	anna := f.browser()
	logged("setup", func() {
		anna.post("/pforte/setup", "t", token, "username", "anna", "display_name", "Anna", "password", adminPass, "again", adminPass).leadsTo("/pforte/")
	})
	logged("invite_created", func() { _, token = anna.shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK).link() })
	logged("invite_accepted", func() {
		f.browser().post("/pforte/join", "t", token, "username", "otto", "password", userPass, "again", userPass).want(http.StatusSeeOther)
	})
	logged("user_changed", func() {
		anna.post("/pforte/admin/members/2", "do", "change", "display_name", "Otto", "color", "#AF52DE", "role", "admin").want(http.StatusSeeOther)
	})
	logged("reset_link_created", func() {
		_, token = anna.shown("/pforte/admin/members/2", "do", "reset-link").want(http.StatusOK).link()
	})
	logged("reset_used", func() {
		f.browser().post("/pforte/reset", "t", token, "password", "a new secret", "again", "a new secret").want(http.StatusSeeOther)
	})
	otto := must(f.store.Users.ByID(t.Context(), 2))(t)
	key := factor.Credential{CredentialID: []byte("a credential"), RPID: "example.com", Record: "{}"}
	must(f.store.Passkeys.AddPasskey(t.Context(), 2, "Telefon", key, otto.SessionStamp, ""))(t)
	b := f.loggedIn("otto", "a new secret")
	logged("passkey_removed", func() { b.post(security, "do", "remove", "id", "1").want(http.StatusSeeOther) })
	logged("sessions_ended", func() { anna.post("/pforte/admin/members/2", "do", "sessions").want(http.StatusSeeOther) })
	logged("invite_revoked", func() {
		anna.shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK)
		id := regexp.MustCompile(`name="id" value="(\d+)"`).FindStringSubmatch(anna.get("/pforte/admin/invites").body)[1]
		anna.post("/pforte/admin/invites", "do", "revoke", "id", id).want(http.StatusSeeOther)
	})
	logged("user_deleted", func() {
		anna.post("/pforte/admin/members/2", "do", "delete", "confirm", "otto").want(http.StatusSeeOther)
	})
}

// TestMembers_AnAdminSavesWhatTheyChanged has two admins at a member's page at once.
func TestMembers_AnAdminSavesWhatTheyChanged(t *testing.T) {
	f := newFixture(t)
	const path = "/pforte/admin/members/2"
	anna := f.anna()
	anna.post(path, "do", "change", "display_name", "Otto", "color", "#AF52DE", "role", "admin").leadsTo(path + "?done=profile")
	was := []string{}
	for _, field := range regexp.MustCompile(`name="(was_[a-z_]+)" value="([^"]*)"`).FindAllStringSubmatch(anna.get(path).body, -1) {
		was = append(was, field[1], field[2])
	}
	if err := f.people.SetRole(t.Context(), "otto", "member"); err != nil {
		t.Fatal(err)
	}
	anna.post(path, append(was, "do", "change", "display_name", "Otto K.", "color", "own", "hex", "green", "role", "admin")...).
		want(http.StatusBadRequest).shows(`name="was_role" value="admin"`)
	anna.post(path, append(was, "do", "change", "display_name", "Otto K.", "color", "#AF52DE", "role", "admin")...).leadsTo(path + "?done=profile")
	if u := must(f.store.Users.ByID(t.Context(), 2))(t); u.DisplayName != "Otto K." || u.Role != user.Member {
		t.Errorf("got %+v", u)
	}
}

func TestInvite_IsRevoked(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	path, _ := anna.shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK).link()
	open, err := f.people.Invites(t.Context())
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	anna.post("/pforte/admin/invites", "do", "revoke", "id", "1").leadsTo("/pforte/admin/invites?done=revoked")
	anna.get("/pforte/admin/invites").shows("Gerade ist keine Einladung offen.")
	f.browser().get(path).want(http.StatusBadRequest)
}

func TestForgotten_PasswordIsSetAnew(t *testing.T) {
	f := newFixture(t)
	paul := f.browser()
	for _, name := range []string{"otto", "nobody"} {
		paul.post("/pforte/forgot", "username", name).leadsTo("/pforte/forgot?done=forgot")
	}
	paul.get("/pforte/forgot?done=forgot").shows("Wenn es dieses Konto gibt, haben wir den Administratoren Bescheid gegeben.")
	f.audit.Drain()
	old, anna := f.otto(), f.anna()
	f.otto().get("/pforte/").lacks("braucht ein neues Passwort")
	anna.get("/pforte/").shows("Otto braucht ein neues Passwort.", `action="/pforte/admin/members/2"`, `value="reset-link" aria-label="Link erstellen: Otto"`)
	anna.get("/pforte/admin/members").shows("Braucht ein neues Passwort")
	path, token := anna.shown("/pforte/admin/members/2", "do", "reset-link").want(http.StatusOK).link()
	paul.get(path).want(http.StatusOK).shows("otto")
	paul.post("/pforte/reset", "t", token, "password", "short", "again", "short").want(http.StatusBadRequest).shows(token)
	f.loggedIn("otto", userPass)
	paul.post("/pforte/reset", "t", token, "password", "a new secret").leadsTo("/pforte/?done=reset")
	paul.get("/pforte/?done=reset").want(http.StatusOK).shows("Dein neues Passwort gilt ab jetzt.", "Hallo, Otto")
	f.browser().post("/pforte/reset", "t", token, "password", "a third secret").want(http.StatusBadRequest).
		shows("Mit diesem Link wurde das Passwort schon geändert.", `href="/pforte/login?name=otto"`)
	old.get("/pforte/").want(http.StatusSeeOther)
	b := f.loggedIn("otto", "a new secret")
	b.get("/pforte/").shows("Sicherheitshinweise", "Passwort über einen Link neu gesetzt", `href="/pforte/account/security?open=wrong#wrong">Das war nicht vereinbart`)
	b.post("/pforte/", "up_to", "1900000000").leadsTo("/pforte/")
	b.get("/pforte/").lacks("Sicherheitshinweise")
}

func TestReset_ShowsTheRemainingPasskeys(t *testing.T) {
	f := newFixture(t)
	otto := must(f.store.Users.ByID(t.Context(), 2))(t)
	key := factor.Credential{CredentialID: []byte("a credential"), RPID: "example.com", Record: "{}"}
	must(f.store.Passkeys.AddPasskey(t.Context(), otto.ID, "Altes Telefon", key, otto.SessionStamp, ""))(t)
	_, token := f.anna().shown("/pforte/admin/members/2", "do", "reset-link").want(http.StatusOK).link()
	b := f.browser()
	const list = security + "?done=passkeys-left"
	b.post("/pforte/reset", "t", token, "password", "a new secret").leadsTo(list)
	b.get(list).want(http.StatusOK).shows("Mit diesen Passkeys kann man sich weiterhin anmelden", "Altes Telefon", "Passkey entfernen")
}

// TestLinks_TokensAreNotGuessed: a page with a right token can be fetched any number of
// times, by messengers for example, and still used.
func TestLinks_TokensAreNotGuessed(t *testing.T) {
	f := newFixture(t)
	path, token := f.anna().shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK).link()
	b := f.browser()
	for range 50 {
		b.get(path).want(http.StatusOK)
		b.do(head(t, path)).want(http.StatusOK)
	}
	for i := range web.LinkAttempts - 1 {
		at := []string{"/pforte/join?t=", "/pforte/reset?t=", "/pforte/setup?t="}[i%3]
		if a := b.get(at + token[1:]); a.status != http.StatusBadRequest && a.status != http.StatusNotFound {
			t.Errorf("%s: got %d", at, a.status)
		}
	}
	b.post("/pforte/join", "t", token, "username", "paul", "password", userPass, "again", userPass).want(http.StatusSeeOther)
	a := b.get(path).want(http.StatusTooManyRequests)
	if a.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	if got := a.header.Get("Referrer-Policy"); got != "strict-origin" {
		t.Errorf("the token reaches the Referer: Referrer-Policy is %q", got)
	}
	f.advance(web.LinkWindow)
	b.get("/pforte/join?t=none").want(http.StatusBadRequest).shows("Frag die Administratoren nach einem neuen.")
}

// TestLinks_AForeignPagesPartsAreNoGuesses: a picture or a frame of another site's page, or what it has the browser fetch
// ahead, leaves the visitor their limit.
func TestLinks_AForeignPagesPartsAreNoGuesses(t *testing.T) {
	f := newFixture(t)
	path, _ := f.anna().shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK).link()
	b := f.browser()
	from := func(path, site, part, purpose string) reply {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Sec-Fetch-Site", site)
		r.Header.Set("Sec-Fetch-Dest", part)
		r.Header.Set("Sec-Purpose", purpose)
		return b.do(r)
	}
	for range web.LinkAttempts {
		for _, part := range []string{"image", "iframe", "empty"} {
			from("/pforte/join?t=none", "cross-site", part, "").want(http.StatusForbidden)
		}
		from("/pforte/join?t=none", "none", "document", "prefetch").want(http.StatusForbidden)
		from("/pforte/join?t=none", "none", "document", "prefetch;prerender").want(http.StatusForbidden)
	}
	from("/pforte/join?t=none", "cross-site", "document", "").want(http.StatusBadRequest)
	from(path, "cross-site", "document", "").want(http.StatusOK)
}

func TestPage_TimesAreInWordsAndForPrograms(t *testing.T) {
	f := newFixture(t)
	f.otto().get("/pforte/account").shows(`<time datetime="2026-03-01T12:00:00Z">heute, 12:00 UTC</time>`, "/pforte/time.js?v=")
}

func TestAudit_IsAFile(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.post("/pforte/admin/invites", "do", "invite", "username", "paul")
	const filtered = "?event=invite_made&from=2026-03-01&to=2026-03-01&user=1"
	anna.get("/pforte/admin/audit" + filtered).shows(`href="/pforte/admin/audit.csv` + filtered + `"`)
	file := anna.get("/pforte/admin/audit.csv" + filtered).want(http.StatusOK)
	if kind, as := file.header.Get("Content-Type"), file.header.Get("Content-Disposition"); kind != "text/csv; charset=utf-8" || as != `attachment; filename="audit.csv"` {
		t.Errorf("%q, %q", kind, as)
	}
	if rows := strings.Split(strings.TrimSpace(file.body), "\r\n"); len(rows) != 2 || !strings.HasPrefix(rows[0], "id,at,event,") || !strings.Contains(rows[1], ",invite_made,user,1,anna,") {
		t.Errorf("the file is %q", rows)
	}
	f.otto().get("/pforte/admin/audit.csv").want(http.StatusForbidden)
	f.advance(24*time.Hour + time.Second)
	anna.get("/pforte/admin/audit.csv" + filtered).leadsTo("/pforte/reauth?return=" + url.QueryEscape("/pforte/admin/audit"+filtered))
}

func TestNotices_ToComeAreNotMarkedAsRead(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.post("/pforte/", "up_to", "7258118400").leadsTo("/pforte/")
	f.advance(time.Minute)
	f.anna().shown("/pforte/admin/members/2", "do", "reset-link").want(http.StatusOK)
	b.get("/pforte/").shows("Sicherheitshinweise")
}

func TestProfile_IsChanged(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.post("/pforte/account", "display_name", "Otto <b>", "color", "#AF52DE").leadsTo("/pforte/account?done=profile")
	b.get("/pforte/account?done=profile").shows("Gespeichert.", `fill="#AF52DE"`).want(http.StatusOK)
	if body := b.get("/pforte/account").body; strings.Contains(body, "Otto <b>") || !strings.Contains(body, "Otto &lt;b&gt;") {
		t.Error("the name is not escaped")
	}
	b.post("/pforte/account", "display_name", "Otto", "color", "own", "hex", `"/><script>`).want(http.StatusBadRequest).shows("Gib eine Farbe", `id="hex-why"`)
	b.post("/pforte/account", "display_name", "", "color", "#AF52DE").want(http.StatusBadRequest).shows("Anzeigename")
	b.post("/pforte/account", "display_name", "Otto", "color", "own", "hex", "#3a7d5c").leadsTo("/pforte/account?done=profile")
	b.get("/pforte/account").shows(`value="#3a7d5c"`)
}

func TestMembers_AnAdminChangesOne(t *testing.T) {
	f := newFixture(t)
	anna, otto := f.anna(), f.otto()
	anna.get("/pforte/admin/members").want(http.StatusOK).shows("Anna", "Otto", "Nur Passwort")
	anna.post("/pforte/admin/members/2", "do", "change", "display_name", "Otto K.", "color", "#34C759", "role", "admin").leadsTo("/pforte/admin/members/2?done=profile")
	otto.get("/pforte/admin/members").want(http.StatusOK).shows("Otto K.")
	anna.post("/pforte/admin/members/2", "do", "sessions").leadsTo("/pforte/admin/members/2?done=sessions")
	otto.get("/pforte/").want(http.StatusSeeOther)
	anna.post("/pforte/admin/members/2", "do", "delete", "confirm", "Otto").want(http.StatusBadRequest).shows("Das ist nicht der Benutzername dieses Kontos.")
	anna.post("/pforte/admin/members/2", "do", "delete", "confirm", "otto").leadsTo("/pforte/admin/members?done=deleted")
	anna.get("/pforte/admin/members/2").want(http.StatusNotFound).shows("Dieses Konto gibt es nicht.")
	anna.post("/pforte/admin/members/1", "do", "change", "display_name", "Anna", "color", "#34C759", "role", "member").want(http.StatusBadRequest).shows("Mindestens ein Mitglied muss Administrator/in bleiben.")
	anna.post("/pforte/admin/members/1", "do", "reset-link").want(http.StatusBadRequest)
	anna.post("/pforte/admin/members/1", "do", "delete", "confirm", "anna").want(http.StatusBadRequest)
	anna.get("/pforte/admin/members/x").want(http.StatusNotFound)
}

func TestMembers_PagesAreForAdmins(t *testing.T) {
	f := newFixture(t)
	anna, otto := f.anna(), f.otto()
	for _, path := range []string{"/pforte/admin/members", "/pforte/admin/members/1", "/pforte/admin/invites", "/pforte/admin/audit"} {
		otto.get(path).want(http.StatusForbidden)
		otto.post(path, "do", "change").lacks("Anna")
		anna.get(path).want(http.StatusOK)
	}
	if err := f.people.SetRole(t.Context(), "otto", string(user.Admin)); err != nil {
		t.Fatal(err)
	}
	otto.get("/pforte/admin/members").want(http.StatusOK)
	if err := f.people.SetRole(t.Context(), "anna", string(user.Member)); err != nil {
		t.Fatal(err)
	}
	anna.post("/pforte/admin/invites", "do", "invite").want(http.StatusForbidden)
}

func TestAudit_IsFilteredAndPaged(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	for range 60 {
		anna.shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK)
	}
	first := anna.get("/pforte/admin/audit?event=invite_made").want(http.StatusOK).shows("Einladung erstellt", "Ältere anzeigen")
	if got := strings.Count(first.body, "<li>"); got != 40 {
		t.Errorf("%d entries on a page", got)
	}
	older := regexp.MustCompile(`href="(/pforte/admin/audit\?before=[^"]*)"`).FindStringSubmatch(first.body)
	if older == nil {
		t.Fatal("there is no link to older entries")
	}
	second := anna.get(strings.ReplaceAll(older[1], "&amp;", "&")).want(http.StatusOK).lacks("Ältere anzeigen")
	if got := strings.Count(second.body, "<li>"); got != 20 {
		t.Errorf("%d entries on the second page, want 20", got)
	}
	anna.get("/pforte/admin/audit?event=user_deleted").shows("Keine Einträge.")
	anna.get("/pforte/admin/audit?from=2026-03-02").shows("Keine Einträge.")
	anna.get("/pforte/admin/audit?from=2026-03-01&to=2026-03-01&user=1").shows("heute, 12:00").lacks("Keine Einträge.")
	anna.get("/pforte/admin/audit?user=2&event=invite_made").shows("Keine Einträge.")
}

func TestLinks_FormsAreLimitedTogether(t *testing.T) {
	f := newFixture(t)
	b := f.browser()
	for i := range web.LinkAttempts {
		if path := []string{"/pforte/forgot", "/pforte/join", "/pforte/reset"}[i%3]; b.post(path, "username", "otto").status == http.StatusTooManyRequests {
			t.Fatalf("form %d of %d is refused", i+1, web.LinkAttempts)
		}
	}
	for _, path := range []string{"/pforte/forgot", "/pforte/join", "/pforte/reset", "/pforte/setup"} {
		if a := b.post(path, "username", "otto").want(http.StatusTooManyRequests); a.header.Get("Retry-After") == "" {
			t.Errorf("%s: there is no Retry-After", path)
		}
	}
	b.get("/pforte/forgot").want(http.StatusOK)
	f.advance(web.LinkWindow)
	b.post("/pforte/forgot", "username", "otto").leadsTo("/pforte/forgot?done=forgot")
}

func TestInvite_AReservedNameIsSaidAtItsField(t *testing.T) {
	f := newFixture(t)
	_, token := f.anna().shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK).link()
	for language, text := range map[string]string{"de": "Diesen Benutzernamen kannst du nicht wählen.", "en": "You cannot choose this username."} {
		b := f.browser()
		b.headers.Set("Accept-Language", language)
		b.post("/pforte/join", "t", token, "username", "Admin", "display_name", "Paul B.", "password", "a long password", "again", "a long password").
			want(http.StatusBadRequest).shows(text, `id="username-why"`, `value="Admin"`, `value="Paul B."`)
	}
	f.browser().post("/pforte/join", "t", token, "username", "paul", "password", "a long password", "again", "a long password").want(http.StatusSeeOther)
}

func TestInvite_ADeletedMembersNameIsAskedAbout(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	const text = "Benutzernamen eines gelöschten Mitglieds wiederverwenden"
	_, token := anna.shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK).lacks(text).link()
	anna.post("/pforte/admin/members/2", "do", "delete", "confirm", "otto").want(http.StatusSeeOther)
	f.browser().post("/pforte/join", "t", token, "username", "otto", "password", "a long password", "again", "a long password").
		want(http.StatusConflict).shows("Diesen Benutzernamen hatte schon ein anderes Mitglied.", `value="otto"`).lacks(text)
	invite := []string{"do", "invite", "username", "otto", "role", "admin"}
	anna.post("/pforte/admin/invites", invite...).want(http.StatusConflict).shows(text, `name="former"`, `value="otto"`, "selected")
	anna.shown("/pforte/admin/invites", append(invite, "former", "yes")...).want(http.StatusOK).link()
}

// TestProfile_KeepsANameThatIsNoLongerAllowed has a name of an earlier version.
func TestProfile_KeepsANameThatIsNoLongerAllowed(t *testing.T) {
	f := newFixture(t)
	former, color := "Ot\u200bto", "#FF9500"
	if err := f.store.Users.Change(t.Context(), 2, user.Change{DisplayName: &former}, session.Session{}); err != nil {
		t.Fatal(err)
	}
	otto := f.otto()
	otto.post("/pforte/account", "display_name", former, "color", color).leadsTo("/pforte/account?done=profile")
	if u := must(f.store.Users.ByID(t.Context(), 2))(t); u.DisplayName != former || u.AvatarColor != color {
		t.Errorf("got %q, %q", u.DisplayName, u.AvatarColor)
	}
	otto.post("/pforte/account", "display_name", "An\u202ena", "color", color).want(http.StatusBadRequest).
		shows("keine unsichtbaren Zeichen")
}

// The box of the login decides how long the cookies last, and stays as it was sent.
func TestLogin_RemembersTheDeviceAsItsBoxSays(t *testing.T) {
	f := newFixture(t)
	f.browser().get("/pforte/login").want(http.StatusOK).shows(`name="remember"`, `name="was_remember"`).lacks("checked")
	for fields, want := range map[string]string{"was_remember,,remember,yes": "Max-Age=2592000", "was_remember,": "", "": "Max-Age=604800"} {
		sent := []string{"username", "otto", "password", userPass}
		if fields != "" {
			sent = append(sent, strings.Split(fields, ",")...)
		}
		answer := f.browser().post("/pforte/login", sent...).want(http.StatusSeeOther)
		session := slices.IndexFunc(answer.header["Set-Cookie"], func(line string) bool { return strings.HasPrefix(line, "svc.sid=") })
		if session < 0 || strings.Contains(answer.header["Set-Cookie"][session], "Max-Age=") != (want != "") || !strings.Contains(answer.header["Set-Cookie"][session], want) {
			t.Errorf("%q: %q", fields, answer.header["Set-Cookie"])
		}
	}
	f.browser().post("/pforte/login", "username", "otto", "password", "wrong", "was_remember", "", "remember", "yes").want(http.StatusUnauthorized).shows("checked")
}

// Without its stores a page says so, and asks for itself again; what was sent is not sent again.
func TestPage_WithoutItsStoresComesBack(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	f.redis.SetError("LOADING")
	if page := anna.get("/pforte/").want(http.StatusInternalServerError).shows("<h1>"); page.header.Get("Refresh") != "5" {
		t.Errorf("got %v", page.header)
	}
	if page := anna.post("/pforte/account", "display_name", "Anna").want(http.StatusInternalServerError).shows("<h1>"); page.header.Get("Refresh") != "" {
		t.Errorf("got %v", page.header)
	}
	f.redis.SetError("")
	if page := anna.get("/pforte/").want(http.StatusOK); page.header.Get("Refresh") != "" {
		t.Errorf("got %v", page.header)
	}
}
